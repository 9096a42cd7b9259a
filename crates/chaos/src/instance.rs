//! One `mintage serve` process after the other, under the same number.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What comes before the address in the first line that a server prints.
const LISTENING: &str = "Mintage is listening on ";

/// Where instances can be reached; nothing for one that does not listen.
#[derive(Debug, Default)]
pub(crate) struct Addresses(Mutex<Vec<Option<String>>>);

impl Addresses {
    pub(crate) fn new(instances: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![None; instances])))
    }

    pub(crate) fn get(&self, instance: usize) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[instance].clone()
    }

    fn set(&self, instance: usize, url: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[instance] = url;
    }
}

/// How an instance is started.
pub(crate) struct Recipe {
    pub(crate) executable: PathBuf,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) config: PathBuf,
    pub(crate) directory: PathBuf,
}

/// One instance.
pub(crate) struct Instance {
    number: usize,
    recipe: Recipe,
    addresses: Arc<Addresses>,
    running: Option<(Child, JoinHandle<()>)>,
}

impl Instance {
    pub(crate) fn new(number: usize, recipe: Recipe, addresses: Arc<Addresses>) -> Self {
        Self { number, recipe, addresses, running: None }
    }

    pub(crate) fn log_path(directory: &Path, number: usize) -> PathBuf {
        directory.join(format!("instance-{number}.log"))
    }

    /// Starts a process and does not wait for it. To be called by the main thread only: the process
    /// is killed when the thread that has started it ends, whatever it ends from.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let log: File = OpenOptions::new()
            .create(true)
            .append(true)
            .open(Self::log_path(&self.recipe.directory, self.number))?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.recipe.executable)
            .args(["serve", "--config"])
            .arg(&self.recipe.config)
            .current_dir(&self.recipe.directory)
            .env_clear()
            .envs(self.recipe.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()?;
        let stdout = child.stdout.take().expect("it is a pipe");
        let (addresses, number) = (Arc::clone(&self.addresses), self.number);
        // Reads on after the first line, so that the server never writes to a closed pipe.
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(url) = line.strip_prefix(LISTENING) {
                    addresses.set(number, Some(url.to_owned()));
                }
            }
        });
        self.running = Some((child, reader));
        Ok(())
    }

    /// Whether there is a process.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Forgets a process that has ended by itself, and says how.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        let (child, _) = self.running.as_mut()?;
        let status = child.try_wait().ok().flatten()?;
        self.forget();
        Some(status)
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        if let Some((child, _)) = &self.running {
            let script = ["-c", "kill -s \"$1\" \"$2\"", "sh", name, &child.id().to_string()];
            // It may just have ended.
            let _ = Command::new("sh").args(script).stderr(Stdio::null()).status();
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.signal("KILL");
        self.forget();
    }

    /// Waits for a process that was asked to stop. One that takes too long is killed, and nothing
    /// is returned.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        // A process that is on its way out does not listen any more.
        self.addresses.set(self.number, None);
        let since = Instant::now();
        while since.elapsed() < patience {
            let (child, _) = self.running.as_mut()?;
            if let Ok(Some(status)) = child.try_wait() {
                self.forget();
                return Some(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.kill();
        None
    }

    fn forget(&mut self) {
        if let Some((mut child, reader)) = self.running.take() {
            let _ = child.wait();
            // Its output has ended, so nobody sets the address any more.
            let _ = reader.join();
        }
        self.addresses.set(self.number, None);
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}
