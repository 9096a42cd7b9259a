//! The figures of the stores on the metrics page.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use storage::Reading;

/// What the stores said last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readings(Arc<Mutex<Vec<Reading>>>);

impl Readings {
    pub(crate) fn set(&self, mut readings: Vec<Reading>) {
        readings.sort_by_key(|reading| reading.name);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = readings;
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for same_name in readings.chunk_by(|a, b| a.name == b.name) {
            let Reading { name, help, counter, .. } = same_name[0];
            let kind = if counter { MetricType::Counter } else { MetricType::Gauge };
            // The format itself says that a counter is a total.
            let name = name.strip_suffix("_total").filter(|_| counter).unwrap_or(name);
            let mut metric = encoder.encode_descriptor(name, help, None, kind)?;
            for Reading { labels, value, .. } in same_name {
                if labels.is_empty() {
                    encode_value(metric, *value, counter)?;
                    break;
                }
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
                encode_value(metric.encode_family(&labels)?, *value, counter)?;
            }
        }
        Ok(())
    }
}

fn encode_value(
    mut metric: MetricEncoder<'_>,
    value: f64,
    counter: bool,
) -> Result<(), fmt::Error> {
    if counter {
        metric.encode_counter::<NoLabelSet, _, u64>(&value, None)
    } else {
        metric.encode_gauge(&value)
    }
}
