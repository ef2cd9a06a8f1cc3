//! Reads sessions from requests and files and converts them into records. No I/O.
//!
//! Types are checked on reading, everything else by [`SessionInput::into_record`]. Errors are listed completely, with JSON pointers.

mod file;
mod format;
mod input;

pub use file::{parse_session, parse_session_file};
pub(in crate::history) use format::{THINKING, tool_text};
pub use input::{InvalidSession, SessionFault, SessionInput};
pub(crate) use input::{pointer, shortened};
