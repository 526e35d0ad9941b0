//! Owns the rows over long lines and several channels, which are judged by what happens over time: rounds, turns, figures.
//! Cases that are judged by their whole time are in `bench::case`.

mod curves;
mod disk;
mod flow;
mod judge;
mod report;
mod row;
mod series;
mod table;
mod turn;
mod watch;

use super::contender::Stage;
use super::world::World;

pub(crate) use report::RowReport;
pub(crate) use row::Row;
pub(crate) use table::{SECONDS_DEFAULT, rows};

use turn::Course;

/// A round during which the host took more of the processors than this is repeated, once.
const STEAL_MAX: f64 = 0.05;

/// Runs the turns of a row, `rounds` times one after the other.
///
/// # Errors
/// On interruption, or when files cannot be made. What fails in a round is in the report.
pub(crate) fn run(
    row: &Row,
    rounds: u32,
    wanted: &dyn Fn(&str) -> bool,
    stage: &Stage,
    world: &World,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<RowReport> {
    let flows: Vec<_> = row.turns.iter().flat_map(|turn| &turn.flows).collect();
    let set = flow::make_set(&flows, &stage.programs, world)?;
    let mut report = RowReport::new(row);
    for round in 1..=rounds {
        let mut courses: Vec<Course> = Vec::new();
        for turn in row.turns.iter().filter(|turn| wanted(&turn.title)) {
            let mut course = turn::run(row, turn, set.as_ref(), stage, world);
            if course.as_ref().is_ok_and(|course| course.steal > STEAL_MAX) {
                course = turn::run(row, turn, set.as_ref(), stage, world);
            }
            world.check()?;
            match course {
                Ok(course) => {
                    for flow in &course.flows {
                        let half = judge::half(flow).unwrap_or(0.0);
                        say(&format!(
                            "  round {round}, {}: {half:.3} Gbit/s over the last half",
                            flow.title
                        ));
                    }
                    courses.push(course);
                }
                Err(error) => {
                    let failure = format!("{}: {error:#}", turn.title);
                    say(&format!("  round {round}, {failure}"));
                    report.fail(failure);
                }
            }
        }
        if courses.len() == row.turns.len() {
            report.add(judge::figures(row, &courses), courses);
        } else {
            report.add(Vec::new(), courses);
        }
    }
    if let Some(set) = &set {
        set.remove()?;
    }
    Ok(report)
}
