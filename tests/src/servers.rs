//! Processes that run beside the tests: the programs, the stores, brokers, Node.js.

pub mod built;
pub mod certificates;
pub mod command_counts;
pub mod command_senders;
pub mod kafka;
pub mod mariadb;
pub mod mariadb_node;
pub mod mono;
pub mod nats;
pub mod node;
pub mod postgres;
pub mod postgres_node;
pub mod program;
pub mod proxy;
pub mod rabbitmq;
pub mod redis_cluster;
pub mod redis_node;
pub mod redis_server;
pub mod resp_proxy;
pub mod s3;
pub mod spark;
pub mod sql_node;
pub mod twemproxy;
mod watchdog;
