//! What happened, in a table and a few sentences.

use crate::bench::Outcome;
use crate::measured::{Histogram, Measured};

/// A line for each run.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let header = ["", "CLIENTS", "QUERIES", "LATENCY", "SERVER CONNECTIONS", "LOGINS AT THE SERVER"];
    let mut text = line(header.map(str::to_owned));
    for outcome in outcomes {
        let Outcome { title, clients, queries, latency, most, opened } = outcome;
        let numbers = [clients.to_string(), queries.to_string(), latency.clone(), format!("{most} at most")];
        let [clients, queries, latency, most] = numbers;
        text += &line([title.clone(), clients, queries, latency, most, opened.to_string()]);
    }
    text
}

/// What the gate measured.
pub(crate) fn summary(measured: &Measured) -> String {
    let Measured { checkouts, opened, queued, refused, queue_wait, checkout_latency } = measured;
    let reuse = checkouts / opened.max(1.0);
    format!(
        "The gate served {checkouts} clients with {opened} logins at the server: {reuse:.0} clients for each.\n\
         {queued} of them had to wait: {}.\n\
         A ready connection was handed over: {}.\n\
         {refused} clients were refused.\n",
        bounds(queue_wait),
        bounds(checkout_latency),
    )
}

fn line([title, clients, queries, latency, most, opened]: [String; 6]) -> String {
    format!("{title:<35}  {clients:>7}  {queries:>7}  {latency:>10}  {most:>18}  {opened:>20}\n")
}

fn bounds(histogram: &Histogram) -> String {
    match (histogram.bound(0.5), histogram.bound(0.99)) {
        (Some(half), Some(most)) => format!("half within {}, 99 % within {}", time(half), time(most)),
        _ => "nobody".to_owned(),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 1e-3 => format!("{} µs", (seconds * 1e7).round() / 10.0),
        seconds if seconds < 1.0 => format!("{} ms", (seconds * 1e4).round() / 10.0),
        seconds => format!("{seconds} s"),
    }
}
