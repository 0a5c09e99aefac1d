//! The stores and the ways to them: files, transactions, encryption, passwords, the private Redis.

mod clear_text;
mod encryption;
mod files;
mod old_rows;
mod private_redis;
mod transactions;
