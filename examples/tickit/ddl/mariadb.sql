-- TICKIT's tables in MariaDB, and what Debezium may see of them. Said again, it changes nothing.
create database if not exists ecomm character set utf8mb4;
create database if not exists lake character set utf8mb4;

create table if not exists ecomm.date (
    dateid smallint primary key,
    caldate date not null,
    day char(2) not null,
    week smallint not null,
    month char(3) not null,
    qtr char(1) not null,
    year smallint not null,
    holiday tinyint(1)
);

create table if not exists ecomm.listing (
    listid int primary key,
    sellerid int not null,
    eventid int not null,
    dateid smallint not null,
    numtickets smallint not null,
    priceperticket decimal(8, 2),
    totalprice decimal(8, 2),
    listtime datetime
);

create table if not exists ecomm.sale (
    salesid int primary key,
    listid int not null,
    sellerid int not null,
    buyerid int not null,
    eventid int not null,
    dateid smallint not null,
    qtysold smallint not null,
    pricepaid decimal(8, 2),
    commission decimal(8, 2),
    saletime datetime
);

-- What fills the tables keeps here how far it is: in the same transactions, and not captured.
create table if not exists lake.progress (
    scale double not null,
    seed int not null,
    row_changes int not null,
    transactions int not null
);

-- Reading the log, and for the snapshot's moment the lock under which it notes the log's position.
create user if not exists debezium@'127.0.0.1';
grant reload, replication slave, binlog monitor on *.* to debezium@'127.0.0.1';
grant select, lock tables on ecomm.* to debezium@'127.0.0.1';
