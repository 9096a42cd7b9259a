//! Cursor pagination: `?limit=` and `?after=`, and `next` in the answer.

use serde::Deserialize;
use utoipa::IntoParams;

use super::problem::Problem;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// Which part of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageQuery {
    /// Continue behind this entry: the `next` of the page before.
    pub(crate) after: Option<String>,
    /// At most so many entries, from 1 to 1,000; 100 if left out.
    pub(crate) limit: Option<usize>,
}

impl PageQuery {
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        match self.limit {
            None => Ok(LIMIT_DEFAULT),
            Some(limit @ 1..=LIMIT_MAX) => Ok(limit),
            Some(limit) => {
                Err(Problem::invalid(format!("limit must be from 1 to {LIMIT_MAX}, not {limit}.")))
            }
        }
    }

    /// Cuts a page out of a list that is sorted by its cursor, and names the next one.
    pub(crate) fn cut<T>(
        &self,
        items: Vec<T>,
        cursor: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>), Problem> {
        let limit = self.limit()?;
        let behind = |item: &T| self.after.as_ref().is_none_or(|after| cursor(item) > *after);
        let mut page: Vec<T> = items.into_iter().filter(behind).take(limit + 1).collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let next = page.last().filter(|_| more).map(&cursor);
        Ok((page, next))
    }
}
