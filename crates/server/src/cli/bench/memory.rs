//! What a process takes.

use anyhow::Context as _;

/// Resident memory of a process.
pub(super) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .context("this benchmark needs /proc, as Linux has it")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    Ok(kilobytes.context("VmRSS")? / 1024.0)
}
