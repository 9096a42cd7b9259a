//! Downloads into files. One that broke off goes on where it was.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tempfile::TempPath;
use ureq::http::{Response, StatusCode, header};

use super::client::Client;
use crate::failure::Failure;

/// Downloads something into a new file and returns its size. What has an `ETag` is collected in a file
/// beside it that is named after the tag, so that parts of different files never meet.
pub(super) fn download(client: &Client, path: &str, out: &Path) -> Result<u64, Failure> {
    if fs::symlink_metadata(out).is_ok() {
        return Err(anyhow!("the file {} exists already", out.display()).into());
    }
    let response = client.fetch(path, &[])?;
    match (text(&response, header::ETAG), content_length(&response)) {
        (Some(tag), Some(bytes)) => {
            let tag = tag.to_owned();
            in_parts(client, path, response, Whole { tag: &tag, bytes }, out)
        }
        _ => Ok(at_once(response, out)?),
    }
}

/// What is downloaded.
#[derive(Clone, Copy)]
struct Whole<'a> {
    tag: &'a str,
    bytes: u64,
}

fn in_parts(
    client: &Client,
    path: &str,
    response: Response<ureq::Body>,
    whole: Whole<'_>,
    out: &Path,
) -> Result<u64, Failure> {
    let partial = partial_path(out, whole.tag)?;
    let mut file = open(&partial)?;
    let there = file.metadata().context("cannot look at the partial file")?.len();
    if there < whole.bytes {
        let response = if there == 0 {
            response
        } else {
            // The server stops to render it when nobody reads on.
            drop(response);
            rest(client, path, whole.tag, there)?
        };
        collect(response, &mut file, there, whole.bytes).with_context(|| {
            format!("the download to {} broke off; the same command goes on with it", out.display())
        })?;
    }
    Ok(finish(&file, partial, whole.bytes, out)?)
}

/// A hidden file in the same directory.
fn partial_path(out: &Path, tag: &str) -> Result<PathBuf, Failure> {
    let Some(name) = out.file_name() else {
        return Err(Failure::usage(format!("{} does not name a file", out.display())));
    };
    let tag: String = tag.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{tag}.partial"));
    Ok(out.with_file_name(hidden))
}

fn open(partial: &Path) -> anyhow::Result<File> {
    let context = || format!("cannot write to {}", partial.display());
    let file = File::options().create(true).append(true).open(partial).with_context(context)?;
    // Two who append to it would spoil it for each other.
    file.try_lock().with_context(context)?;
    Ok(file)
}

/// The rest of a file, if it still is the same.
fn rest(
    client: &Client,
    path: &str,
    tag: &str,
    there: u64,
) -> Result<Response<ureq::Body>, Failure> {
    let range = format!("bytes={there}-");
    let response = client.fetch(path, &[("range", &range), ("if-range", tag)])?;
    if response.status() == StatusCode::PARTIAL_CONTENT
        && text(&response, header::ETAG) == Some(tag)
    {
        return Ok(response);
    }
    Err(anyhow!("the file has changed on the server just now; try again").into())
}

fn collect(
    mut response: Response<ureq::Body>,
    file: &mut File,
    there: u64,
    bytes: u64,
) -> anyhow::Result<()> {
    let bar = ProgressBar::new(bytes).with_position(there);
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let copied = io::copy(&mut bar.wrap_read(response.body_mut().as_reader()), file);
    bar.finish_and_clear();
    let there = there + copied?;
    if there != bytes {
        bail!("{there} of {bytes} bytes arrived");
    }
    Ok(())
}

/// Makes a complete file durable and gives it its name.
fn finish(file: &File, partial: PathBuf, bytes: u64, out: &Path) -> anyhow::Result<u64> {
    let context = || format!("cannot make the file {}", out.display());
    file.sync_all().with_context(context)?;
    let partial = TempPath::try_from_path(partial).with_context(context)?;
    partial.persist_noclobber(out).map_err(|refused| {
        // It is complete, and there may be room for it under another name.
        let _ = refused.path.keep();
        anyhow::Error::from(refused.error).context(context())
    })?;
    Ok(bytes)
}

/// Something of which there are no parts.
fn at_once(mut response: Response<ureq::Body>, out: &Path) -> anyhow::Result<u64> {
    let mut file =
        File::create_new(out).with_context(|| format!("cannot make the file {}", out.display()))?;
    let copied = io::copy(&mut response.body_mut().as_reader(), &mut file)
        .and_then(|bytes| file.sync_all().map(|()| bytes));
    if copied.is_err() {
        // Half a file must not look like a whole one.
        let _ = fs::remove_file(out);
    }
    copied.with_context(|| format!("the download to {} broke off", out.display()))
}

fn text(response: &Response<ureq::Body>, name: header::HeaderName) -> Option<&str> {
    response.headers().get(name)?.to_str().ok()
}

fn content_length(response: &Response<ureq::Body>) -> Option<u64> {
    text(response, header::CONTENT_LENGTH)?.parse().ok()
}
