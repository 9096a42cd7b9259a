//! One connection, for as long as a step needs it.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

use bytes::Bytes;
use deadpool_postgres::Object;
use futures_util::future::{BoxFuture, MaybeDone, maybe_done, try_join};
use futures_util::{FutureExt, SinkExt};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Failure;

/// A parameter and its type. The type is named so that a statement takes one round trip also where
/// it is not prepared.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement among others.
pub(crate) struct Statement<'a> {
    pub(crate) keep: Keep,
    pub(crate) sql: String,
    pub(crate) params: &'a [Param<'a>],
}

/// The rows of a statement that was sent, or is about to be.
type Answer<'a> = MaybeDone<BoxFuture<'a, Result<Vec<Row>, tokio_postgres::Error>>>;

/// Whether a statement is kept on its connection, ready to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is, because it comes often and there are few like it.
    Prepared,
    /// It is not: it comes rarely, or a pooler would not know it the next time.
    Never,
}

/// One connection. It goes back to the others only if it is known to be in order: one that has an
/// answer or a transaction outstanding is closed, and the server undoes what was not committed.
pub(crate) struct Session {
    object: Option<Object>,
    prepare: bool,
    in_order: bool,
    in_transaction: bool,
}

impl Session {
    pub(crate) fn new(object: Object, prepare: bool) -> Self {
        Self { object: Some(object), prepare, in_order: true, in_transaction: false }
    }

    fn client(&self) -> &Object {
        self.object.as_ref().expect("only dropping takes it out")
    }

    /// Notes how a request has ended.
    fn ended<T>(
        &mut self,
        result: Result<T, tokio_postgres::Error>,
    ) -> Result<T, tokio_postgres::Error> {
        self.in_order = match &result {
            Ok(_) => true,
            // A server that may not write has become a replica.
            Err(error) if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => false,
            Err(error) => !matches!(Failure::of(error), Failure::Connection | Failure::NotSent),
        };
        result
    }

    /// Runs one statement.
    pub(crate) async fn query(
        &mut self,
        keep: Keep,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.in_order = false;
        let result = self.run(keep, sql, params).await;
        self.ended(result)
    }

    async fn run(
        &self,
        keep: Keep,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        if !self.prepare || keep == Keep::Never {
            return self.client().query_typed(sql, params).await;
        }
        let statement = self.client().prepare_typed_cached(sql, &types(params)).await?;
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        self.client().query(&statement, &values).await
    }

    /// Runs several statements without parameters or results.
    pub(crate) async fn batch(&mut self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.in_order = false;
        let result = self.client().batch_execute(sql).await;
        self.ended(result)
    }

    /// Runs a `COPY … FROM STDIN` within a transaction. Returns how many rows were written.
    pub(crate) async fn copy(
        &mut self,
        sql: &str,
        pieces: impl Iterator<Item = Bytes>,
    ) -> Result<u64, tokio_postgres::Error> {
        self.in_order = false;
        let result = self.copy_pieces(sql, pieces).await;
        self.ended(result)
    }

    async fn copy_pieces(
        &self,
        sql: &str,
        pieces: impl Iterator<Item = Bytes>,
    ) -> Result<u64, tokio_postgres::Error> {
        let mut sink = pin!(self.client().copy_in(sql).await?);
        for piece in pieces {
            // Several pieces may be under way; `send` would wait for each of them.
            sink.feed(piece).await?;
        }
        sink.finish().await
    }

    /// Begins a transaction with limits of its own. If the session is dropped before the end, the
    /// transaction is undone.
    pub(crate) async fn begin(
        &mut self,
        statement_ms: u128,
        lock_ms: u128,
    ) -> Result<(), tokio_postgres::Error> {
        self.in_transaction = true;
        self.batch(&begin(statement_ms, lock_ms)).await
    }

    /// Runs statements in a transaction of their own, in this order: all or none. They are sent
    /// together, so that it takes one round trip. Returns the rows of each.
    pub(crate) async fn transact(
        mut self,
        statement_ms: u128,
        lock_ms: u128,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        self.in_order = false;
        let result = self.send_together(begin(statement_ms, lock_ms), statements).await;
        self.ended(result)
    }

    async fn send_together(
        &self,
        begin: String,
        statements: &[Statement<'_>],
    ) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        // One that is not prepared yet would be passed by those behind it.
        for Statement { keep, sql, params } in statements {
            if self.prepare && *keep == Keep::Prepared {
                self.client().prepare_typed_cached(sql, &types(params)).await?;
            }
        }
        let mut answers: Vec<Answer<'_>> = vec![maybe_done(self.simple(begin).boxed())];
        answers.extend(statements.iter().map(|Statement { keep, sql, params }| {
            maybe_done(self.run(*keep, sql, params).boxed())
        }));
        answers.push(maybe_done(self.simple("COMMIT".to_owned()).boxed()));
        // Polled in this order, they are sent in this order.
        poll_fn(|context| {
            let waiting = answers.iter_mut().map(|answer| answer.poll_unpin(context));
            match waiting.filter(Poll::is_pending).count() {
                0 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
        // The first that fails is why those behind it fail. A commit after it undoes everything.
        let outputs = answers.iter_mut().filter_map(|answer| Pin::new(answer).take_output());
        let mut rows = outputs.collect::<Result<Vec<_>, _>>()?;
        rows.pop();
        rows.remove(0);
        Ok(rows)
    }

    async fn simple(&self, sql: String) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client().batch_execute(&sql).await.map(|()| Vec::new())
    }

    /// Begins a transaction with limits of its own and runs its first statement, in one round trip: the
    /// statement is sent without waiting for an answer to what comes before it.
    pub(crate) async fn begin_with(
        &mut self,
        statement_ms: u128,
        lock_ms: u128,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.in_transaction = true;
        self.in_order = false;
        let begin = begin(statement_ms, lock_ms);
        let client = self.client();
        let both = try_join(client.batch_execute(&begin), client.query_typed(sql, params));
        let result = both.await.map(|((), rows)| rows);
        self.ended(result)
    }

    pub(crate) async fn commit(mut self) -> Result<(), tokio_postgres::Error> {
        self.batch("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }

    pub(crate) async fn roll_back(mut self) -> Result<(), tokio_postgres::Error> {
        self.batch("ROLLBACK").await?;
        self.in_transaction = false;
        Ok(())
    }
}

fn types(params: &[Param<'_>]) -> Vec<Type> {
    params.iter().map(|(_, ty)| ty.clone()).collect()
}

fn begin(statement_ms: u128, lock_ms: u128) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED;
         SET LOCAL statement_timeout = {statement_ms};
         SET LOCAL lock_timeout = {lock_ms}"
    )
}

impl Drop for Session {
    fn drop(&mut self) {
        if (!self.in_order || self.in_transaction)
            && let Some(object) = self.object.take()
        {
            drop(Object::take(object));
        }
    }
}
