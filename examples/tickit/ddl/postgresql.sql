-- TICKIT's tables in PostgreSQL, and what Debezium may see of them. Said again, it changes nothing.
\set ON_ERROR_STOP 1
set client_min_messages = warning;

create schema if not exists ems;
create schema if not exists crm;
create schema if not exists lake;

create table if not exists ems.category (
    catid smallint primary key,
    catgroup varchar(10),
    catname varchar(10),
    catdesc varchar(50)
);

create table if not exists ems.venue (
    venueid smallint primary key,
    venuename varchar(100),
    venuecity varchar(30),
    venuestate char(2),
    venueseats integer
);

create table if not exists ems.event (
    eventid integer primary key,
    venueid smallint not null,
    catid smallint not null,
    dateid smallint not null,
    eventname varchar(200),
    starttime timestamp
);

create table if not exists crm."user" (
    userid integer primary key,
    username char(8),
    firstname varchar(30),
    lastname varchar(30),
    city varchar(30),
    state char(2),
    email varchar(100),
    phone char(14),
    likesports boolean,
    liketheatre boolean,
    likeconcerts boolean,
    likejazz boolean,
    likeclassical boolean,
    likeopera boolean,
    likerock boolean,
    likevegas boolean,
    likebroadway boolean,
    likemusicals boolean
);

-- What fills the tables keeps here how far it is: in the same transactions, and not captured.
create table if not exists lake.progress (
    scale double precision not null,
    seed integer not null,
    row_changes integer not null,
    transactions integer not null
);

select 'create role debezium login replication'
where not exists (select from pg_roles where rolname = 'debezium') \gexec

grant usage on schema ems, crm to debezium;
grant select on ems.category, ems.venue, ems.event, crm."user" to debezium;

-- One publication for each set of connectors.
select format('create publication %I for table ems.category, ems.venue, ems.event, crm."user"', name)
from unnest(array['tickit', 'tickit_json']) as name
where not exists (select from pg_publication where pubname = name) \gexec
