//! What can be said about pools.

use idgen::format::Format;

use super::issuer::Issuer;
use super::pool::{Pool, PoolView};
use super::supply::Supply;
use crate::error::IssueError;
use crate::live_type::LiveType;

/// Spaces with no more serials left than this are counted, not estimated.
const COUNT_LEFT_MAX: u64 = 20_000;

/// What can be said about a pool.
#[derive(Debug, Clone)]
pub struct PoolReport {
    /// The tenant.
    pub tenant: String,
    /// The type.
    pub type_name: String,
    /// The counter within the type.
    pub period: String,
    /// IDs that are ready.
    pub level: u64,
    /// IDs that a refill aims for.
    pub size: u64,
    /// The level at which it is refilled.
    pub watermark: u64,
    /// IDs per second that are taken.
    pub burn_per_second: f64,
    /// IDs that are left, those in the pool included.
    pub valid_left: u64,
    /// Whether `valid_left` was counted, not estimated.
    pub exact: bool,
    /// Share of the space that is drawn.
    pub used_ratio: f64,
    /// At the present rate; none if nothing is taken.
    pub days_left: Option<f64>,
    /// Whether the space is used up.
    pub exhausted: bool,
}

impl Issuer {
    /// The state of every pool, or of one tenant's.
    pub async fn pools(&self, tenant: Option<&str>) -> Result<Vec<PoolReport>, IssueError> {
        let mut reports = Vec::new();
        for live in self.catalogue.all() {
            let matches = tenant.is_none_or(|tenant| live.stored().id_type.tenant() == tenant);
            if let Some(pool) = live.pool().filter(|_| matches) {
                reports.push(self.report(&live, &pool).await?);
            }
        }
        Ok(reports)
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "estimates for people"
    )]
    async fn report(&self, live: &LiveType, pool: &Pool) -> Result<PoolReport, IssueError> {
        let mut view = pool.view(self.clock.now_ms());
        if let Supply::Shared(shared) = &pool.supply {
            let shared = shared.view();
            view.level += usize::try_from(shared.items).unwrap_or(usize::MAX);
            view.target = usize::try_from(shared.size).unwrap_or(usize::MAX);
        }
        let (start, end) = pool.bounds;
        // Among others, the counter moves without this instance.
        let known = view.next_serial.filter(|_| !self.pool_maker().shared.in_company());
        let next = match known {
            Some(next) => next,
            None => self.stored_position(pool).await?,
        };
        let (left, exact) = valid_left(live, &view, next, end);
        let days_left =
            (view.burn_per_second > 0.001).then(|| left as f64 / view.burn_per_second / 86_400.0);
        Ok(PoolReport {
            tenant: live.stored().id_type.tenant().to_owned(),
            type_name: live.stored().id_type.name().to_owned(),
            period: pool.period.clone(),
            level: view.level as u64,
            size: view.target as u64,
            watermark: (view.target as f64 * (1.0 - self.settings.watermark)) as u64,
            burn_per_second: view.burn_per_second,
            valid_left: left,
            exact,
            used_ratio: match known {
                Some(_) => view.used_ratio,
                None => (next - start) as f64 / (end - start) as f64,
            },
            days_left,
            exhausted: left == 0,
        })
    }

    /// Where a counter stands that this instance has not drawn from yet.
    async fn stored_position(&self, pool: &Pool) -> Result<u64, IssueError> {
        let counters = self.store.counters(pool.type_id).await?;
        let found = counters.into_iter().find(|(period, _)| *period == pool.period);
        Ok(found.map_or(pool.bounds.0, |(_, next)| next))
    }
}

/// IDs left in the pool and beyond it, and whether that was counted.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates for people"
)]
fn valid_left(live: &LiveType, view: &PoolView, next: u64, end: u64) -> (u64, bool) {
    let (level, serials) = (view.level as u64, end.saturating_sub(next));
    match live.format() {
        Format::Random(format) if format.shape().has_filters() => {
            if serials <= COUNT_LEFT_MAX {
                let mut left = 0;
                format.for_each(next..end, |_, _| left += 1);
                (level + left, true)
            } else {
                (level + (serials as f64 * view.acceptance) as u64, false)
            }
        }
        _ => (level + serials, true),
    }
}
