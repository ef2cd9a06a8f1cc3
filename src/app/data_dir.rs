//! Data folder of an embedded setup: created if missing, locked by one process.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::{AppError, Mode};

/// Folder locked by this process. Dropping it unlocks it.
pub struct DataDir {
    _lock: File,
}

/// Locks the data folder of a mode that has one, for the lifetime of the result. Errors: `Locked` if another process
/// has locked it, `Config` if it can't be used.
pub fn hold_data_folder(mode: &Mode) -> Result<Option<DataDir>, AppError> {
    match mode {
        Mode::Embedded { data_dir } => DataDir::lock(data_dir).map(Some),
        Mode::Shared => Ok(None),
    }
}

impl DataDir {
    /// Creates and locks the folder. The kernel releases the lock however the process ends.
    pub(super) fn lock(path: &Path) -> Result<Self, AppError> {
        let cannot = |error: std::io::Error| {
            AppError::Config(format!(
                "cannot use the data folder {}: {error}; choose another one with --data-dir",
                path.display()
            ))
        };
        std::fs::create_dir_all(path).map_err(cannot)?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("gavel.lock"))
            .map_err(cannot)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(AppError::Locked {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_is_locked_by_one_process_at_a_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("data");
        let held = DataDir::lock(&path)
            .map_err(|e| e.to_string())
            .expect("free");
        match DataDir::lock(&path) {
            Err(AppError::Locked { path: named }) => assert_eq!(named, path),
            Err(other) => panic!("not {other}"),
            Ok(_) => panic!("held twice"),
        }
        drop(held);
        assert!(DataDir::lock(&path).is_ok());
    }

    #[test]
    fn file_at_folder_path_reports_flag() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("data");
        std::fs::write(&path, "in the way").expect("written");
        let Err(error) = DataDir::lock(&path) else {
            panic!("locked a file")
        };
        assert!(error.to_string().contains("--data-dir"), "{error}");
    }
}
