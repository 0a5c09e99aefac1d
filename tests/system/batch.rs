//! The commands of `analytics`, and their jobs.

mod blocks;
mod export;
mod fold_diffs;
mod fold_liars;
mod fold_spark;
mod folds;
mod generate;
mod import;
mod import_bulk;
mod import_formats;
mod jobs;
mod parts;
mod rebuild_faults;
mod rebuilds;
mod what_if;
