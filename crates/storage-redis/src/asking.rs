//! Asking the server that has a key, and putting serials back into their list.

use std::sync::Arc;

use redis::{Pipeline, Value};
use storage::PoolKey;

use crate::breaker::Shared;
use crate::error::Trouble;
use crate::keys::{self, PoolKeys};
use crate::link::Link;

impl Shared {
    /// Sends commands about a pool's list, and vouches for the answers.
    pub(crate) async fn ask(
        &self,
        link: &Arc<Link>,
        pool: &PoolKey,
        commands: Pipeline,
    ) -> Result<Vec<Value>, Trouble> {
        let step = async { accepted(link.node(&keys::tag(pool))?.ask(commands).await?) };
        self.over(link, step).await
    }

    /// Sends commands about keys with a tag that the service can do without, and vouches for the answers.
    /// A user of the server who may not use them can still use the pools, so a refusal does not open the
    /// breaker.
    pub(crate) async fn ask_aside(
        &self,
        link: &Arc<Link>,
        tag: &str,
        commands: Pipeline,
    ) -> Result<Vec<Value>, Trouble> {
        let step = async { link.node(tag)?.ask(commands).await };
        let answers = self.over(link, step).await?;
        accepted(answers).inspect_err(|_| self.figures.notes_refused.add(1))
    }

    pub(crate) fn keys(&self, pool: &PoolKey, link: &Link) -> PoolKeys {
        PoolKeys::new(&self.settings.namespace, pool, link.epoch)
    }

    /// Puts serials back at the head of their list.
    pub(crate) async fn push_front(
        &self,
        link: &Arc<Link>,
        pool: &PoolKey,
        serials: &[u64],
    ) -> Result<(), Trouble> {
        let mut descending = serials.to_vec();
        descending.sort_unstable_by(|one, other| other.cmp(one));
        let mut commands = Pipeline::with_capacity(2);
        // One command, so that all of them are in the list or none.
        commands.cmd("LPUSH").arg(self.keys(pool, link).serials).arg(descending);
        self.ask(link, pool, commands).await.map(drop)
    }

    /// Puts back what strayed. While it is here it is in no list, and another instance that looks for
    /// losses must not take it for one.
    pub(crate) async fn return_strays(&self, link: &Arc<Link>) {
        for ((type_id, period), serials) in self.strays.drain(link.epoch) {
            let (tenant, name) = Default::default();
            let pool = PoolKey { type_id, tenant, name, period };
            match self.push_front(link, &pool, &serials).await {
                Ok(()) => {}
                Err(Trouble::Refused(_)) => {
                    self.strays.keep(&pool, link.epoch, &serials);
                }
                // They may be back or not, so they are not kept to be put back again. They stay recorded
                // under the pool, and are found to be missing if they are.
                Err(_) => self.figures.pushes_unknown.add(serials.len() as u64),
            }
        }
    }
}

/// The answers, if none is a refusal.
pub(crate) fn accepted(answers: Vec<Value>) -> Result<Vec<Value>, Trouble> {
    answers.iter().find_map(refusal).map_or(Ok(answers), Err)
}

fn refusal(answer: &Value) -> Option<Trouble> {
    match answer {
        Value::ServerError(error) => Some(Trouble::Refused(error.clone())),
        _ => None,
    }
}
