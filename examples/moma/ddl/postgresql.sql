-- MoMA's tables in PostgreSQL, and what Debezium may see of them. Said again, it changes nothing.
\set ON_ERROR_STOP 1
set client_min_messages = warning;

create schema if not exists lake;

create table if not exists public.artists (
    artist_id integer primary key,
    name varchar(200),
    nationality varchar(100),
    gender varchar(20),
    birth_year integer,
    death_year integer
);

create table if not exists public.artworks (
    artwork_id integer primary key,
    title varchar(1000),
    artist_id integer not null,
    name varchar(1000),
    date integer,
    medium varchar(1000),
    dimensions varchar(1000),
    acquisition_date varchar(20),
    credit varchar(1000),
    catalogue varchar(10),
    department varchar(100),
    classification varchar(100),
    object_number varchar(100),
    diameter_cm varchar(20),
    circumference_cm varchar(20),
    height_cm varchar(20),
    length_cm varchar(20),
    width_cm varchar(20),
    depth_cm varchar(20),
    weight_kg varchar(20),
    durations integer
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

grant usage on schema public to debezium;
grant select on public.artists, public.artworks to debezium;

select 'create publication moma for table public.artists, public.artworks'
where not exists (select from pg_publication where pubname = 'moma') \gexec
