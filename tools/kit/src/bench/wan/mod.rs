//! Owns the rows over long links and several channels, which are measured over time: rounds, turns, figures.
//! `bench::case` has the cases that are measured as a whole.

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
use super::runner::ATTEMPTS_MAX;
use super::world::World;

pub(crate) use report::RowReport;
pub(crate) use row::Row;
pub(crate) use table::{SECONDS_DEFAULT, rows};

use turn::Course;

/// Runs the turns of a row in order, `rounds` times.
///
/// # Errors
/// The user interrupts, or files cannot be made. The report contains failures within a round.
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
            let (taken, end) = attempts(|| {
                world.check()?;
                turn::run(row, turn, set.as_ref(), stage, world)
            });
            world.check()?;
            for course in &taken {
                let disturbed = if course.counts { "" } else { ", disturbed" };
                for flow in &course.flows {
                    let half = judge::half(flow).unwrap_or(0.0);
                    say(&format!(
                        "  round {round}, {}: {half:.3} Gbit/s over the last half{disturbed}",
                        flow.title
                    ));
                }
            }
            courses.extend(taken);
            if let Err(error) = end {
                let failure = format!("{}: {error:#}", turn.title);
                say(&format!("  round {round}, {failure}"));
                report.fail(failure);
            }
        }
        let counted: Vec<&Course> = courses.iter().filter(|course| course.counts).collect();
        let figures = if counted.len() == row.turns.len() {
            judge::figures(row, &counted)
        } else {
            Vec::new()
        };
        report.add(figures, courses);
    }
    if let Some(set) = &set {
        set.remove()?;
    }
    Ok(report)
}

/// Repeats a turn until it was not disturbed, or no attempts are left. Returns all attempts; an error ends them.
fn attempts(mut take: impl FnMut() -> anyhow::Result<Course>) -> (Vec<Course>, anyhow::Result<()>) {
    let mut taken = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        match take() {
            Ok(course) => {
                let counts = course.counts;
                taken.push(course);
                if counts {
                    break;
                }
            }
            Err(error) => return (taken, Err(error)),
        }
    }
    (taken, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::judge::tests::{course, flow};
    use super::*;

    /// Turns that were disturbed as listed, in a round of the first row.
    fn taken(disturbed: &[bool]) -> Vec<Course> {
        let mut next = disturbed.iter();
        let (taken, end) = attempts(|| {
            let disturbed = next.next().expect("no more attempts than foreseen");
            let mut course = course(vec![flow("godwit", 0.0, 1.0)]);
            course.counts = !disturbed;
            Ok(course)
        });
        end.expect("no failure");
        taken
    }

    #[test]
    fn a_disturbed_turn_is_repeated_three_times_and_never_counts() {
        let counts = |disturbed: &[bool]| -> Vec<bool> {
            taken(disturbed)
                .iter()
                .map(|course| course.counts)
                .collect()
        };
        assert_eq!(counts(&[false, true]), [true]);
        assert_eq!(counts(&[true, true, false]), [false, false, true]);
        assert_eq!(counts(&[true; 5]), [false; 4]);
    }

    #[test]
    fn a_failed_attempt_keeps_the_results_before_it() {
        let mut attempt = 0;
        let (taken, end) = attempts(|| {
            attempt += 1;
            anyhow::ensure!(attempt < 2, "the network broke");
            let mut course = course(Vec::new());
            course.counts = false;
            Ok(course)
        });
        assert_eq!(taken.len(), 1);
        assert!(end.is_err());
    }

    #[test]
    fn the_report_keeps_disturbed_turns_and_counts_none_of_them() {
        let rows = rows(12.0);
        let mut report = RowReport::new(&rows[0]);
        report.add(Vec::new(), taken(&[true, false]));
        report.add(Vec::new(), taken(&[true; 4]));
        let table = report.markdown();
        assert!(table.contains("| godwit | 1 |"), "{table}");
        assert!(table.contains("5 disturbed"), "{table}");
        let json = serde_json::to_value(&report).expect("JSON");
        let rounds = json["rounds"].as_array().expect("rounds");
        let kept: Vec<usize> = rounds
            .iter()
            .map(|round| round.as_array().map_or(0, Vec::len))
            .collect();
        assert_eq!(kept, [2, 4]);
        assert_eq!(rounds[0][0]["counts"], false);
        assert!(rounds[0][1]["flows"][0]["gbit_s"].is_number());
    }
}
