use proptest::prelude::*;

use super::*;

const WINDOW: Duration = Duration::from_secs(75);
const SECOND: Duration = Duration::from_secs(1);

/// One sandbox and whoever watches it, with a clock of its own.
struct Watched {
    now: Instant,
    sight: Sight,
    silence: Silence<u32>,
    sign: u32,
}

impl Watched {
    fn new() -> Self {
        let now = Instant::now();
        Self { now, sight: Sight::default(), silence: Silence::new(now, false), sign: 0 }
    }

    /// A look after a pause, if it goes well.
    fn look(&mut self, pause: Duration, goes_well: bool) -> Option<Step> {
        self.now += pause;
        if goes_well {
            self.sight.saw(self.now);
        } else {
            self.sight.lost();
        }
        let unbroken_since = self.sight.unbroken_since(self.now);
        self.silence.look(Look { now: self.now, sign: self.sign, unbroken_since, window: WINDOW })
    }

    /// What comes of so many seconds with a look in each.
    fn seconds(&mut self, seconds: u64) -> Vec<Step> {
        (0..seconds).filter_map(|_| self.look(SECOND, true)).collect()
    }
}

fn up(rung: Rung, seconds: u64) -> Step {
    Step::Up { rung, silent: Duration::from_secs(seconds) }
}

#[test]
fn a_silent_sandbox_goes_up_rung_by_rung() {
    let mut watched = Watched::new();
    assert_eq!(watched.seconds(75), [], "it has just begun to be watched");
    let ladder = [
        up(Rung::Warned, 75),
        up(Rung::Unresponsive, 113),
        up(Rung::Interrupted, 151),
        up(Rung::Failed, 189),
        up(Rung::Failed, 227),
    ];
    assert_eq!(watched.seconds(153), ladder, "the last is repeated: it may not have been possible");
}

#[test]
fn one_that_is_heard_begins_at_the_bottom_and_that_is_told_once() {
    let mut watched = Watched::new();
    watched.sign += 1;
    assert_eq!(watched.seconds(1), [], "nobody was told that it was silent");
    assert_eq!(watched.seconds(120).len(), 2);
    watched.sign += 1;
    assert_eq!(watched.seconds(74), [Step::HeardAgain]);
    assert_eq!(watched.seconds(2), [up(Rung::Warned, 75)]);
}

#[test]
fn what_another_server_told_is_taken_back() {
    let mut watched = Watched::new();
    watched.silence = Silence::new(watched.now, true);
    assert_eq!(watched.seconds(5), []);
    watched.sign += 1;
    assert_eq!(watched.seconds(5), [Step::HeardAgain]);
}

#[test]
fn who_was_away_judges_nobody_for_a_whole_window() {
    for (pause, goes_well) in [(SECOND * 600, true), (SECOND, false)] {
        let mut watched = Watched::new();
        assert_eq!(watched.seconds(180).len(), 3);
        assert_eq!(watched.look(pause, goes_well), None);
        assert_eq!(watched.seconds(74), [], "away for {pause:?}, or without its store");
        assert_eq!(watched.seconds(2), [up(Rung::Warned, 75)], "and then from the bottom");
    }
}

#[test]
fn the_window_follows_the_heartbeat() {
    let windows = [
        (None, 75),
        (Some(30.0), 75),
        (Some(60.0), 150),
        (Some(1e9), 150),
        (Some(0.1), 10),
        (Some(-5.0), 10),
        (Some(f64::NAN), 75),
    ];
    for (declared, window) in windows {
        assert_eq!(window_of(declared), window, "{declared:?}");
    }
}

proptest! {
    /// Whatever happens, each rung is told after the one before, and only of silence that was watched all along.
    #[test]
    fn nobody_is_judged_for_what_was_not_watched(
        looks in prop::collection::vec((1_u64..9_000, prop::bool::weighted(0.98), prop::bool::weighted(0.03)), 1..400)
    ) {
        let mut watched = Watched::new();
        let (mut quiet, mut expected) = (Duration::ZERO, Rung::Warned);
        let mut told = false;
        for (millis, goes_well, speaks) in looks {
            let pause = Duration::from_millis(millis);
            watched.sign += u32::from(speaks);
            let gap = pause > GAP_MAX || !goes_well;
            quiet = if gap || speaks { Duration::ZERO } else { quiet + pause };
            if gap || speaks {
                expected = Rung::Warned;
            }
            match watched.look(pause, goes_well) {
                Some(Step::Up { rung, silent }) => {
                    prop_assert_eq!(rung, expected);
                    let halves = match rung {
                        Rung::Heard => unreachable!("nothing is told of it"),
                        Rung::Warned => 2,
                        Rung::Unresponsive => 3,
                        Rung::Interrupted => 4,
                        Rung::Failed => 5,
                    };
                    prop_assert!(silent <= quiet && silent >= WINDOW / 2 * halves, "{silent:?} of {quiet:?}");
                    (expected, told) = (rung.next(), true);
                }
                Some(Step::HeardAgain) => {
                    prop_assert!(speaks && told);
                    told = false;
                }
                None => {}
            }
        }
    }
}
