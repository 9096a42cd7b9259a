//! The one thread that writes, and its group commit.
//!
//! Steps wait in a channel. The thread takes all that wait, runs each in a savepoint of one
//! transaction, commits once, and only then answers. While it waits for the disk the next steps
//! gather, so the more there is to do, the more steps share a commit.
//!
//! A step that fails is undone alone. When the commit fails, nothing of the group has happened and
//! every step in it is answered so. A caller that goes away while it waits changes nothing: its
//! step was either never sent, or runs like any other.
//!
//! Long steps are committed one by one, each after the short ones that have come meanwhile, so that a
//! request waits for one of them, unless more than a group of requests waits.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use storage::{Result, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::checkpoints::Checkpoints;
use crate::error::{StepResult, from_sqlite};

/// Steps in one commit. Bounds how long the first of them waits for the others.
const GROUP_STEPS_MAX: usize = 256;

/// Steps that may wait; further callers wait for room.
const WAITING_STEPS_MAX: usize = 1024;

/// A handle on the thread.
pub(crate) struct Writer {
    /// None once the writer is dropped, so that the thread sees the end of the channel.
    sender: Option<mpsc::Sender<Order>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Order {
    Step(Box<dyn Step>),
    Long(Box<dyn Step>),
    /// Finish what was ordered before, close the file, and say so.
    Close(oneshot::Sender<()>),
}

impl Writer {
    /// Starts the thread. It keeps `held` until it has closed the connection, which it does last, because
    /// the last one to be closed tidies up.
    pub(crate) fn start(
        connection: Connection,
        checkpoints: Checkpoints,
        held: impl Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, orders) = mpsc::channel(WAITING_STEPS_MAX);
        let thread = thread::Builder::new().name("mintage-writer".to_owned()).spawn(move || {
            let closing = work(&connection, &checkpoints, orders);
            drop(checkpoints);
            drop(connection);
            drop(held);
            for done in closing {
                // Whoever asked may have gone away.
                let _ = done.send(());
            }
        })?;
        Ok(Self { sender: Some(sender), thread: Mutex::new(Some(thread)) })
    }

    /// Takes a step. Durable once it returns `Ok`; not taken at all if it returns an error.
    pub(crate) async fn run<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StepResult<T> + Send + 'static,
    {
        self.order(work, Order::Step).await
    }

    /// The same for a step that takes longer than requests should wait for it.
    pub(crate) async fn run_long<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StepResult<T> + Send + 'static,
    {
        self.order(work, Order::Long).await
    }

    async fn order<T, F>(&self, work: F, order: fn(Box<dyn Step>) -> Order) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> StepResult<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let step = Box::new(Pending { work: Some(work), outcome: None, reply });
        self.send(order(step)).await?;
        answer.await.map_err(|_| closed())?
    }

    /// Finishes what waits and closes the file. Closing twice is fine.
    pub(crate) async fn close(&self) {
        let (done, closing) = oneshot::channel();
        if self.send(Order::Close(done)).await.is_ok() {
            // An error means that another call to close came first.
            let _ = closing.await;
        }
    }

    async fn send(&self, order: Order) -> Result<()> {
        let sender = self.sender.as_ref().ok_or_else(closed)?;
        sender.send(order).await.map_err(|_| closed())
    }

    /// Steps that wait now.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.sender.as_ref().map_or(0, |sender| sender.max_capacity() - sender.capacity())
    }
}

/// Waits for the thread, so that the directory is free when the store is gone.
impl Drop for Writer {
    fn drop(&mut self) {
        self.sender = None;
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread catches the panics of steps; one of its own has been reported already.
            let _ = thread.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("it is closed".to_owned())
}

/// A step of any result type.
trait Step: Send {
    /// Does the work and keeps the result to itself. False if the step is to be undone.
    fn work(&mut self, connection: &Connection) -> bool;

    /// Tells the caller, after the commit, or why there was none.
    fn answer(self: Box<Self>, commit: std::result::Result<(), &str>);
}

struct Pending<T, F> {
    work: Option<F>,
    outcome: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

impl<T, F> Step for Pending<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> StepResult<T> + Send,
{
    fn work(&mut self, connection: &Connection) -> bool {
        let Some(work) = self.work.take() else { return false };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(connection)))
            .map_err(|panic| StoreError::Unavailable(message(panic.as_ref())))
            .and_then(|outcome| outcome.map_err(|error| error.0));
        let done = outcome.is_ok();
        self.outcome = Some(outcome);
        done
    }

    fn answer(self: Box<Self>, commit: std::result::Result<(), &str>) {
        let unavailable = |why: &str| Err(StoreError::Unavailable(why.to_owned()));
        let result = match (self.outcome, commit) {
            // What a step found wrong stays wrong, whatever became of the others.
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (_, Err(why)) => unavailable(why),
            (None, Ok(())) => unavailable("the step was not taken"),
        };
        // A caller that has gone away does not want the answer.
        let _ = self.reply.send(result);
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("a step ended in a panic: {text}")
}

/// Serves orders until the store is closed or dropped. Returns who waits for the end.
fn work(
    connection: &Connection,
    checkpoints: &Checkpoints,
    mut orders: mpsc::Receiver<Order>,
) -> Vec<oneshot::Sender<()>> {
    let mut closing = Vec::new();
    let mut taken = Vec::with_capacity(GROUP_STEPS_MAX);
    let mut long = VecDeque::new();
    let run = |group: Vec<Box<dyn Step>>| {
        if !group.is_empty() {
            run_group(connection, group);
            checkpoints.note_commit();
        }
    };
    while take(&mut orders, &mut taken, long.is_empty()) {
        let mut group = Vec::with_capacity(taken.len());
        for order in taken.drain(..) {
            match order {
                Order::Step(step) => group.push(step),
                Order::Long(step) => long.push_back(step),
                Order::Close(done) => {
                    // Nothing is accepted from here on; what was accepted is still done.
                    orders.close();
                    closing.push(done);
                }
            }
        }
        run(group);
        run(long.pop_front().into_iter().collect());
    }
    closing
}

/// Takes what waits, and if the thread has nothing else to do, waits for it. False when all is done.
fn take(orders: &mut mpsc::Receiver<Order>, taken: &mut Vec<Order>, idle: bool) -> bool {
    if idle {
        return orders.blocking_recv_many(taken, GROUP_STEPS_MAX) > 0;
    }
    while taken.len() < GROUP_STEPS_MAX
        && let Ok(order) = orders.try_recv()
    {
        taken.push(order);
    }
    true
}

fn run_group(connection: &Connection, mut group: Vec<Box<dyn Step>>) {
    let committed = try_group(connection, &mut group).map_err(|why| {
        if !connection.is_autocommit() {
            // If even this fails, the next group finds the transaction open and tries again.
            let _ = execute(connection, "ROLLBACK");
        }
        why.to_string()
    });
    for step in group {
        step.answer(committed.as_ref().copied().map_err(String::as_str));
    }
}

fn try_group(connection: &Connection, group: &mut [Box<dyn Step>]) -> Result<(), CommitError> {
    if !connection.is_autocommit() {
        execute(connection, "ROLLBACK")?;
    }
    execute(connection, "BEGIN IMMEDIATE")?;
    for step in group {
        execute(connection, "SAVEPOINT step")?;
        let done = step.work(connection);
        // Some errors, a full disk among them, end the whole transaction on the spot.
        if connection.is_autocommit() {
            return Err(CommitError::Ended);
        }
        if !done {
            execute(connection, "ROLLBACK TO step")?;
        }
        execute(connection, "RELEASE step")?;
    }
    execute(connection, "COMMIT")?;
    Ok(())
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Why a group was not committed.
#[derive(Debug, thiserror::Error)]
enum CommitError {
    #[error("{}", plain(.0))]
    Sqlite(#[from] rusqlite::Error),
    #[error("another step that was to be written together with this one failed")]
    Ended,
}

fn plain(error: &rusqlite::Error) -> String {
    match from_sqlite(error) {
        StoreError::Unavailable(why) => why,
        other => other.to_string(),
    }
}
