use super::*;
use weir_model::{RejectionReason, ReplayOutcome};

fn open() -> (tempfile::TempDir, Ledger) {
    let data = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(data.path()).unwrap();
    (data, ledger)
}

fn intent(id: u128, original: u128, again: bool) -> Intent<'static> {
    Intent {
        id,
        original,
        job: None,
        fleet_job: None,
        who: "ops",
        destination: "",
        difference: "",
        again,
    }
}

fn start(ledger: &Ledger, id: u128, original: u128, again: bool) -> Result<(), RejectionReason> {
    ledger.write(|db| record_intent(db, &intent(id, original, again))).unwrap()
}

fn finish(ledger: &Ledger, id: u128, outcome: &ReplayOutcome) -> AttemptState {
    ledger.write(|db| super::finish(db, id, outcome)).unwrap().expect("it had not ended")
}

#[test]
fn an_attempt_is_under_way_alone_and_settles_its_original() {
    let (_data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    assert_eq!(start(&ledger, 12, 1, true), Err(RejectionReason::Sending), "not even when told to");
    assert_eq!(finish(&ledger, 11, &ReplayOutcome::Response(503, None)), AttemptState::Failed);
    assert_eq!(start(&ledger, 12, 1, false), Ok(()));
    assert_eq!(finish(&ledger, 12, &ReplayOutcome::Response(204, None)), AttemptState::Succeeded);
    // A repeated outcome counts once.
    let twice = ledger.write(|db| super::finish(db, 12, &ReplayOutcome::Response(500, None)));
    assert_eq!(twice, Ok(None));
    assert_eq!(start(&ledger, 13, 1, false), Err(RejectionReason::Settled));
    assert_eq!(start(&ledger, 13, 1, true), Ok(()));
    finish(&ledger, 13, &ReplayOutcome::Rejected(RejectionReason::LimitReached));
    let history = ledger.history(1).unwrap();
    let states: Vec<_> = history.attempts.iter().map(|a| (a.number, a.state, a.status)).collect();
    assert_eq!(
        states,
        [
            (1, AttemptState::Failed, 503),
            (2, AttemptState::Succeeded, 204),
            (3, AttemptState::Refused, 0)
        ]
    );
    assert_eq!(history.attempts[2].reason, "limit-reached");
    assert_eq!(history.changes.len(), 1);
    assert_eq!(ledger.resolution(1).unwrap(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.history(2).unwrap(), History::default());
}

#[test]
fn what_was_being_sent_is_unknown_after_a_crash() {
    let (data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    drop(ledger);
    let ledger = Ledger::open(data.path()).unwrap();
    ledger.recover().unwrap();
    assert_eq!(ledger.unknown().unwrap(), [11]);
    assert_eq!(start(&ledger, 12, 1, false), Err(RejectionReason::Unknown));
    assert_eq!(start(&ledger, 12, 1, true), Ok(()));
    finish(&ledger, 12, &ReplayOutcome::Unknown);
    // The journal may know better.
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    assert_eq!(ledger.resolution(1).unwrap(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.attempt(11).unwrap().unwrap().state, AttemptState::Succeeded);
}

#[test]
fn what_is_said_by_hand_is_kept_in_order() {
    let (_data, ledger) = open();
    for (state, comment) in [(Resolution::Dismissed, "no"), (Resolution::Open, "after all")] {
        ledger.resolve(1, state, "ops", comment).unwrap();
    }
    let changes = ledger.history(1).unwrap().changes;
    assert_eq!(
        (changes[0].state, changes[1].comment.as_str()),
        (Resolution::Dismissed, "after all")
    );
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
}

fn copy(revision: i64, state: Resolution, at: u64) -> ResolutionCopy {
    let (who, comment) = ("other".to_owned(), format!("revision {revision}"));
    ResolutionCopy { transaction: 1, revision, state, who, comment, at }
}

#[test]
fn a_copy_replaces_what_is_older_and_nothing_else() {
    let (_data, ledger) = open();
    let state = || ledger.resolution(1).unwrap();
    let apply = |copies: &[ResolutionCopy]| ledger.copy_resolutions(copies).unwrap();
    let (dismissed, reopened) =
        (copy(2, Resolution::Dismissed, 1_000), copy(3, Resolution::Open, 10));
    assert_eq!(apply(std::slice::from_ref(&dismissed)), 1);
    assert_eq!(start(&ledger, 11, 1, false), Err(RejectionReason::Settled));
    assert_eq!(apply(&[reopened.clone(), dismissed.clone(), reopened]), 1);
    assert_eq!(state(), Some(Resolution::Open));
    // The clock of the node that set the last one was behind.
    let changes = ledger.history(1).unwrap().changes;
    let of = |change: &ResolutionChange| (change.state, change.at.0, change.comment.clone());
    assert_eq!(
        changes.iter().map(of).collect::<Vec<_>>(),
        [
            (Resolution::Dismissed, 1_000, "revision 2".to_owned()),
            (Resolution::Open, 1_000, "revision 3".to_owned())
        ]
    );
    // An attempt of this node succeeds: its copy comes back from the fleet, and older ones do not matter.
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    assert_eq!(apply(&[dismissed]), 0);
    assert_eq!(apply(&[copy(4, Resolution::Resubmitted, 2_000)]), 1);
    assert_eq!(state(), Some(Resolution::Resubmitted));
    assert_eq!(ledger.history(1).unwrap().changes.len(), 3);
}

#[test]
fn what_is_older_than_transactions_are_kept_goes() {
    let (_data, ledger) = open();
    assert_eq!(start(&ledger, 11, 1, false), Ok(()));
    finish(&ledger, 11, &ReplayOutcome::Response(200, None));
    ledger.purge(Duration::from_secs(3600)).unwrap();
    assert_eq!(ledger.history(1).unwrap().attempts.len(), 1);
    std::thread::sleep(Duration::from_millis(2));
    ledger.purge(Duration::ZERO).unwrap();
    assert_eq!(ledger.history(1).unwrap(), History::default());
    assert_eq!(ledger.resolution(1).unwrap(), None);
}

#[test]
fn every_name_is_read_back() {
    let all =
        [Resolution::Open, Resolution::Resubmitted, Resolution::Resolved, Resolution::Dismissed];
    for state in all {
        assert_eq!(state.as_ref().parse(), Ok(state));
    }
    assert!("done".parse::<Resolution>().is_err());
}
