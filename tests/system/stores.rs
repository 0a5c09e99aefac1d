//! The stores and the ways to them: files, transactions, encryption, passwords, the private Redis.

mod backup;
mod backup_faults;
mod clear_text;
mod deadlocks;
mod encryption;
mod few_rights;
mod files;
mod mariadb;
mod old_rows;
mod private_redis;
mod redis_proxies;
mod strangers;
mod transactions;
mod upgrade;
