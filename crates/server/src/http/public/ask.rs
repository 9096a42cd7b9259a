//! Finds the verdict, and gives nothing away about what is not known.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use engine::LiveType;
use engine::answers::Known;
use engine::codes::Scan;
use engine::error::IssueError;
use storage::Answer;
use tokio::time::Instant;

use super::verdict::PublicVerdict;
use super::{Public, Visit};
use crate::http::App;
use crate::http::metrics::PublicResult;
use crate::http::problem::Problem;
use crate::http::scans::Seen;

/// Keeps tokens apart from the idempotency keys of those who have an API key.
const ANSWER_SCOPE: &str = "public page";

/// How long a request waits each time for another one with its token, about a second in all. A scan takes
/// a few milliseconds.
const WAITS_MS: [u64; 6] = [20, 40, 80, 160, 320, 640];

/// The verdict. With a token it counts, once for each token. What is unknown is told at one moment
/// after it was asked, whatever it took to find out.
pub(super) async fn verdict(
    app: &Arc<App>,
    public: &Public,
    visit: Visit,
    token: Option<String>,
) -> Result<PublicVerdict, Problem> {
    let asked = Instant::now();
    // What is wrong with the store is nothing for strangers.
    let found = find(app, public, visit, token)
        .await
        .map_err(|_| Problem::unavailable("The code cannot be verified at the moment."))?;
    let result = if found.is_some() { PublicResult::Known } else { PublicResult::Unknown };
    app.metrics.count_public(result);
    if let Some(verdict) = found {
        return Ok(verdict);
    }
    tokio::time::sleep_until(asked + held(public.miss, asked.elapsed())).await;
    Ok(PublicVerdict::unknown())
}

async fn find(
    app: &Arc<App>,
    public: &Public,
    visit: Visit,
    token: Option<String>,
) -> Result<Option<PublicVerdict>, IssueError> {
    let codes = &app.engine.codes;
    let Some(live) = public.find(app, &visit) else {
        // The same questions to the store as for a type that exists.
        if let Some(live) = public.any(app) {
            codes.is_ordered(live, "").await?;
        }
        return Ok(None);
    };
    if !codes.is_ordered(&live, &visit.code).await? {
        return Ok(None);
    }
    let Some(token) = token else {
        return look(app, &live, &visit.code, Seen::NotCounted).await;
    };
    let app = Arc::clone(app);
    // It runs to its end: what was counted must be kept with its token.
    let work = tokio::spawn(async move { count(&app, &live, &visit, token).await });
    let lost = |_| IssueError::Unavailable("the scan was interrupted".to_owned());
    work.await.map_err(lost)?
}

/// How long an answer is held back in all: until the next of a row of moments that are equally far
/// apart.
fn held(step: Duration, elapsed: Duration) -> Duration {
    let steps = elapsed.as_micros() / step.as_micros().max(1) + 1;
    step * u32::try_from(steps).unwrap_or(1)
}

/// Does not count. A replica is not asked: a code that is void must never be shown as genuine.
async fn look(
    app: &App,
    live: &LiveType,
    code: &str,
    seen: Seen,
) -> Result<Option<PublicVerdict>, IssueError> {
    match app.engine.codes.look(live, code).await? {
        Scan::Known { status, .. } => Ok(Some(PublicVerdict::new(status, seen))),
        Scan::Unknown(_) => Ok(None),
    }
}

/// The answer to a token that was counted before, unless the code has become void since.
async fn again(
    app: &App,
    live: &LiveType,
    code: &str,
    answer: &Answer,
) -> Result<Option<PublicVerdict>, IssueError> {
    let now = look(app, live, code, Seen::Counted).await?;
    if now.as_ref().is_some_and(|verdict| verdict.reason().is_some()) {
        return Ok(now);
    }
    Ok(serde_json::from_slice(&answer.body).ok())
}

/// Counts a scan, once for each token, and whichever instance it comes to.
async fn count(
    app: &App,
    live: &LiveType,
    visit: &Visit,
    token: String,
) -> Result<Option<PublicVerdict>, IssueError> {
    let answers = &app.engine.answers;
    let claim = match look_up(app, visit, &token).await? {
        Known::New(claim) => claim,
        Known::Answered(answer) => return again(app, live, &visit.code, &answer).await,
        Known::InFlight => {
            let problem = "another request with this token is still being worked on";
            return Err(IssueError::Unavailable(problem.to_owned()));
        }
        Known::OtherBody => return look(app, live, &visit.code, Seen::NotCounted).await,
    };
    let codes = &app.engine.codes;
    // Nothing is kept about people who hold a code in their hands.
    match codes.scan_once(live, &visit.code, ANSWER_SCOPE, &token, None).await {
        Ok(Scan::Known { status, .. }) => {
            let verdict = PublicVerdict::new(status, Seen::Counted);
            let body = serde_json::to_vec(&verdict).expect("a verdict is plain data");
            answers.keep(claim, &Answer { status: StatusCode::OK.as_u16(), body }).await?;
            Ok(Some(verdict))
        }
        Ok(Scan::Unknown(_)) => {
            answers.release(claim).await;
            Ok(None)
        }
        Err(problem) => {
            answers.release(claim).await;
            Err(problem)
        }
    }
}

/// Looks a token up, and claims it if it is new. Two requests with one token are the same scan, so the
/// second waits for what the first is told. Before the first is counted nobody can say what that will be.
async fn look_up(app: &App, visit: &Visit, token: &str) -> Result<Known, IssueError> {
    let (answers, page) = (&app.engine.answers, visit.page());
    let ask = || answers.look_up(ANSWER_SCOPE.to_owned(), token.to_owned(), page.as_bytes());
    for wait in WAITS_MS {
        match ask().await? {
            Known::InFlight => tokio::time::sleep(Duration::from_millis(wait)).await,
            known => return Ok(known),
        }
    }
    Ok(ask().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_of_answers_are_equally_far_apart() {
        let ms = Duration::from_millis;
        for (elapsed, at) in [(0, 50), (1, 50), (49, 50), (50, 100), (51, 100), (120, 150)] {
            assert_eq!(held(ms(50), ms(elapsed)), ms(at), "{elapsed}");
        }
    }
}
