//! Sessions as they are put or read from files, and the way from there to a stored record.
//!
//! Types are checked while reading, everything else by [`SessionInput::into_record`], which lists every fault with a JSON
//! pointer. Nothing here opens a file, and nothing here scores.

mod file;
mod format;
mod input;
mod text;

pub use file::{parse_session, parse_session_file};
pub(in crate::history) use format::{THINKING, tool_text};
pub use input::{InvalidSession, SessionFault, SessionInput};
pub(crate) use input::{pointer, shortened};
