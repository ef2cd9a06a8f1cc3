//! Postgres and SQLite behind one face: connections, statements, rows, errors, pages, migrations. Knows no table but its own.

pub(super) mod conn;
pub(super) mod connect;
pub(super) mod db;
pub(super) mod dialect;
pub(super) mod error;
pub(super) mod grants;
pub(super) mod group;
pub(super) mod last_outage;
pub(super) mod migrations;
pub(super) mod page;
pub(super) mod pool;
pub(super) mod pooler;
pub(super) mod row;
pub(super) mod session;
pub(super) mod sql;
pub(super) mod writes;
