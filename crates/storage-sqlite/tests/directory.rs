//! Opening data directories.

use std::fs;
use std::path::{Path, PathBuf};

use storage_sqlite::{OpenError, SqliteStore};
use tempfile::TempDir;

fn temporary() -> (TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("deep").join("data");
    (parent, directory)
}

fn refusal(directory: &Path) -> OpenError {
    SqliteStore::open(directory).err().expect("it is refused")
}

fn with_file(directory: &Path, change: impl FnOnce(&rusqlite::Connection)) {
    change(&rusqlite::Connection::open(directory.join("mintage.db")).unwrap());
}

#[test]
fn a_missing_directory_is_made_for_its_owner_alone() {
    let (_parent, directory) = temporary();
    drop(SqliteStore::open(&directory).unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    }
    drop(SqliteStore::open(&directory).unwrap());
}

#[tokio::test]
async fn a_second_store_is_refused_while_the_first_lives() {
    let (_parent, directory) = temporary();
    let first = SqliteStore::open(&directory).unwrap();
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::InUse { .. }), "{error:?}");
    let expected =
        format!("the data directory {} is in use by another mintage process", directory.display());
    assert_eq!(error.to_string(), expected);
    drop(first);
    let second = SqliteStore::open(&directory).unwrap();
    storage::Store::close(&second).await.unwrap();
    drop(SqliteStore::open(&directory).unwrap());
}

#[test]
fn a_place_that_cannot_be_written_is_refused() {
    let (parent, _) = temporary();
    let file = parent.path().join("file");
    fs::write(&file, "in the way").unwrap();
    for directory in [file.clone(), file.join("data")] {
        let error = refusal(&directory);
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error:?}");
        assert!(error.to_string().contains("cannot be written"), "{error}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let (_parent, directory) = temporary();
    drop(SqliteStore::open(&directory).unwrap());
    with_file(&directory, |connection| {
        connection.pragma_update(None, "user_version", 1000).unwrap();
    });
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NewerSchema { found: 1000, .. }), "{error:?}");
    with_file(&directory, |connection| {
        let version: i64 =
            connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 1000);
    });
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let (_parent, directory) = temporary();
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("mintage.db"), "a letter to my landlord\n".repeat(100)).unwrap();
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
}

#[test]
fn the_database_of_another_program_is_refused() {
    let (_parent, directory) = temporary();
    fs::create_dir_all(&directory).unwrap();
    with_file(&directory, |connection| {
        connection.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    });
    let error = refusal(&directory);
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
}
