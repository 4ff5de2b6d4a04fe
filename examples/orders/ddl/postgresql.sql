-- The shop's tables, the outboxes that their triggers fill, and what Debezium may see. Said again, it changes nothing.
\set ON_ERROR_STOP 1
set client_min_messages = warning;

create schema if not exists ecommerce;
create schema if not exists datalake;
create schema if not exists lake;

create table if not exists ecommerce.customers (
    customer_number integer primary key,
    customer_id char(5) not null unique,
    company_name varchar(60) not null
);

create table if not exists ecommerce.orders (
    order_id integer primary key,
    customer_id char(5) not null references ecommerce.customers (customer_id),
    order_date date not null,
    required_date date,
    shipped_date date
);
create index if not exists orders_of_customer on ecommerce.orders (customer_id);

create table if not exists ecommerce.order_items (
    order_item_id integer primary key,
    order_id integer not null references ecommerce.orders (order_id),
    product_id smallint not null,
    unit_price decimal(8, 2) not null,
    quantity smallint not null,
    discount decimal(8, 2) not null
);
create index if not exists order_items_of_order on ecommerce.order_items (order_id);

-- The article's outbox: one row an order, as it is.
create table if not exists datalake.cdc_events (
    order_id integer primary key,
    customer_id varchar(5) not null,
    company_name varchar(60),
    order_date date,
    required_date date,
    shipped_date date,
    order_items json
);

-- The outbox of Debezium's event router: one row an event, never changed. The router's events have no place in a log: a
-- version orders those of an order. It is drawn while the order's row is locked, so that a later commit has a later one.
create sequence if not exists datalake.versions;
create table if not exists datalake.outbox (
    id uuid primary key default gen_random_uuid(),
    aggregatetype varchar(255) not null,
    aggregateid varchar(255) not null,
    type varchar(255) not null,
    payload jsonb
);

-- What fills the tables keeps here how far it is: in the same transactions, and not captured.
create table if not exists lake.progress (
    scale double precision not null,
    seed integer not null,
    row_changes integer not null,
    transactions integer not null
);

create or replace function datalake.put_order(changed integer) returns void language sql as $$
    with whole as (
        select
            orders.order_id,
            orders.customer_id,
            customers.company_name,
            orders.order_date,
            orders.required_date,
            orders.shipped_date,
            coalesce(
                (
                    select jsonb_agg(
                        jsonb_build_object(
                            'discount', items.discount, 'quantity', items.quantity, 'unit_price', items.unit_price
                        ) order by items.order_item_id
                    )
                    from ecommerce.order_items as items
                    where items.order_id = orders.order_id
                ), '[]'
            )::text::json as order_items
        from ecommerce.orders as orders
        inner join ecommerce.customers as customers on orders.customer_id = customers.customer_id
        where orders.order_id = changed
    )
    insert into datalake.cdc_events
    select * from whole
    on conflict (order_id) do update set
        customer_id = excluded.customer_id,
        company_name = excluded.company_name,
        order_date = excluded.order_date,
        required_date = excluded.required_date,
        shipped_date = excluded.shipped_date,
        order_items = excluded.order_items;
$$;

create or replace function datalake.order_changed() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        delete from datalake.cdc_events where order_id = old.order_id;
    else
        perform datalake.put_order(new.order_id);
    end if;
    return null;
end $$;

create or replace function datalake.item_changed() returns trigger language plpgsql as $$
begin
    perform datalake.put_order(case when tg_op = 'DELETE' then old.order_id else new.order_id end);
    return null;
end $$;

create or replace function datalake.customer_changed() returns trigger language plpgsql as $$
begin
    perform datalake.put_order(orders.order_id)
    from ecommerce.orders as orders
    where orders.customer_id = new.customer_id
    order by orders.order_id;
    return null;
end $$;

-- An event without a payload says that the order is gone: the router makes a tombstone of it.
create or replace function datalake.outbox_changed() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        insert into datalake.outbox (aggregatetype, aggregateid, type, payload)
        values ('order', old.order_id, 'OrderCancelled', null);
    else
        insert into datalake.outbox (aggregatetype, aggregateid, type, payload)
        values (
            'order', new.order_id, case when tg_op = 'INSERT' then 'OrderPlaced' else 'OrderChanged' end,
            to_jsonb(new) || jsonb_build_object('version', nextval('datalake.versions'))
        );
    end if;
    return null;
end $$;

create or replace trigger order_changed
after insert or update or delete on ecommerce.orders
for each row execute function datalake.order_changed();

create or replace trigger item_changed
after insert or update or delete on ecommerce.order_items
for each row execute function datalake.item_changed();

create or replace trigger customer_changed
after update of company_name on ecommerce.customers
for each row execute function datalake.customer_changed();

create or replace trigger outbox_changed
after insert or update or delete on datalake.cdc_events
for each row execute function datalake.outbox_changed();

select 'create role debezium login replication'
where not exists (select from pg_roles where rolname = 'debezium') \gexec

grant usage on schema datalake to debezium;
grant select on datalake.cdc_events, datalake.outbox to debezium;

-- One publication for each connector.
select format('create publication %I for table %s', name, captured)
from (values ('orders_outbox', 'datalake.cdc_events'), ('orders_router', 'datalake.outbox')) as wanted (name, captured)
where not exists (select from pg_publication where pubname = name) \gexec
