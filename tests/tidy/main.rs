//! The rules of the house, as tests over the text of the repository.
//!
//! | module | rules about |
//! |---|---|
//! | [`comments`] | the width of comments, words, notes that were left |
//! | [`crates`] | the dependencies of each crate |
//! | [`files`] | length, names and first lines of files |
//! | [`guards`] | what a client needs for each field |
//! | [`markdown`] | lines and links of pages |
//! | [`migrations`] | the steps of the SQL schema |
//! | [`purity`] | the rules of ranking: no clock, no environment, no store |
//! | [`transactions`] | transactions, which begin in one place |
//! | [`windows`] | matches on windows |
//!
//! A failure lists each place as `file:line: remedy`. Nothing here starts a server or a program.

mod comments;
mod crates;
mod files;
mod guards;
mod markdown;
mod migrations;
mod purity;
mod transactions;
mod tree;
mod windows;
