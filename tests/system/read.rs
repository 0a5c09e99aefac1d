//! Standings read: entries, pages, caches.

mod caches;
mod demo;
mod dense_ranks;
mod distribution;
mod emptied_logs;
mod entries;
mod pages;
mod pages_beside_writers;
mod ranks_beside_writers;
mod redis_commands;
mod score_places;
