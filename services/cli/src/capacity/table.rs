//! Renders the answer as a table.

use std::fmt::Write;

use corelane_cli::model::Sharing;

use super::answer::{Answer, At};
use super::text::{digits, time, whole};

pub(crate) fn render(answer: &Answer) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = replica(&mut out, answer);
    let _ = carried(&mut out, answer);
    if let Some(at) = &answer.at {
        let _ = fares(&mut out, answer, at);
    }
    let _ = scaled(&mut out, answer);
    out
}

fn replica(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let replica = answer.model.replica();
    let lanes = if replica.lanes == 1 { "lane" } else { "lanes" };
    let work = match replica.sharing {
        Sharing::Together => ", which share their work",
        Sharing::Apart => "",
    };
    writeln!(
        out,
        "One replica: {} {lanes}{work}; {} slots and a queue of {} on each.",
        replica.lanes, replica.slots, replica.queue
    )?;
    writeln!(
        out,
        "A request costs its lane {} outside its handler, and {} if the lane must wake up.\n",
        time(replica.outside),
        time(replica.wake)
    )?;
    let kinds = answer.model.mix().kinds();
    let width = kinds.iter().map(|kind| kind.name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "  {:width$}  {:>7}  {:>20}  {:>20}",
        "kind", "share", "holds its lane", "waits"
    )?;
    let spread = |mean, deviation| format!("{} ± {}", time(mean), time(deviation));
    for kind in kinds {
        let (lane, wait) = (kind.lane, kind.wait);
        writeln!(
            out,
            "  {:width$}  {:>6}%  {:>20}  {:>20}",
            kind.name,
            digits(kind.share * 100.0),
            spread(lane.mean(), lane.deviation()),
            spread(wait.mean(), wait.deviation())
        )?;
    }
    Ok(())
}

fn carried(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let knee = answer.model.knee();
    writeln!(
        out,
        "\nIt carries {} requests/s at most, by its {}.",
        whole(knee.rate),
        answer.bound()
    )?;
    let Some((target, plan)) = answer.target.zip(answer.plan) else { return Ok(()) };
    let quantile = format!("p{} within {}", trimmed(target.share), time(target.within));
    let Some(needed) = plan.needed else {
        return writeln!(out, "It never has {quantile}: the requests alone take longer.");
    };
    let rate = whole(plan.carried);
    writeln!(out, "It carries {rate} requests/s with {quantile} (simulated).")?;
    let Some(load) = answer.load else { return Ok(()) };
    let (load, spare) = (whole(load), answer.spare);
    let all = needed + spare;
    let replicas = if needed == 1 { "replica" } else { "replicas" };
    writeln!(out, "{load} requests/s need {needed} {replicas}; {all} if {spare} may be away.")
}

fn trimmed(share: f64) -> f64 {
    (share * 1e5).round() / 1e3
}

fn fares(out: &mut String, answer: &Answer, at: &At) -> std::fmt::Result {
    let knee = answer.model.knee().rate;
    let who = match at.replicas {
        1 => "One replica".to_owned(),
        many => format!("Of {many} replicas, each"),
    };
    writeln!(
        out,
        "\n{} has {} requests/s, {}% of what it carries at most; mean wait {}.",
        who,
        whole(at.rate),
        digits(100.0 * at.rate / knee),
        time(at.estimated.wait)
    )?;
    let Some(simulated) = &at.simulated else {
        return writeln!(out, "That is overload: the wait grows for as long as the load lasts.");
    };
    if simulated.shed > 0.0 {
        writeln!(out, "{}% of the requests are shed.", digits(100.0 * simulated.shed))?;
    }
    let kinds = answer.model.mix().kinds();
    let names = kinds.iter().map(|kind| kind.name.as_str());
    let rows: Vec<_> = std::iter::once(("all", None))
        .chain(names.enumerate().map(|(place, name)| (name, Some(place))))
        .collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    writeln!(
        out,
        "\n  {:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>18}",
        "simulated", "mean", "p50", "p99", "p99.9", "p99 by formula"
    )?;
    for (name, place) in rows {
        writeln!(
            out,
            "  {name:width$}  {:>9}  {:>9}  {:>9}  {:>9}  {:>18}",
            time(simulated.mean(place)),
            time(simulated.quantile(place, 0.5)),
            time(simulated.quantile(place, 0.99)),
            time(simulated.quantile(place, 0.999)),
            time(at.estimated.quantile(place, 0.99))
        )?;
    }
    match at.met {
        Some(true) => writeln!(out, "\nThe target is met."),
        Some(false) => writeln!(out, "\nThe target is not met."),
        None => Ok(()),
    }
}

fn scaled(out: &mut String, answer: &Answer) -> std::fmt::Result {
    let Some(hpa) = answer.autoscaling else { return Ok(()) };
    writeln!(
        out,
        "\nAutoscaling: keep lanes busy {}% of the time, {} requests/s of each replica. Then the load may grow \
         by {}% until a new one is ready. {} to {} replicas (--hpa prints the values of the chart).",
        digits(100.0 * hpa.busy),
        whole(hpa.rate),
        digits(100.0 * answer.growth),
        hpa.min,
        hpa.max
    )
}
