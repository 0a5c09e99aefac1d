//! Files that commands read and write.

pub(crate) mod format;
pub(crate) mod frame_file;
pub(crate) mod out_file;
