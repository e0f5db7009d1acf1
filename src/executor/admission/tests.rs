use std::time::Duration;

use super::super::room::BYTES_PER_OWNER;
use super::*;

fn admission(host: usize, owner: usize, queue: usize) -> Arc<Admission> {
    Admission::new(AdmissionSettings {
        concurrency_host: host,
        concurrency_per_owner: owner,
        queue_host: queue,
        queue_per_owner: queue,
    })
}

#[tokio::test]
async fn a_place_is_given_back_and_a_full_line_says_so() {
    let gate = admission(1, 1, 1);
    let owner: OwnerId = "a".parse().unwrap();
    let soon = || Instant::now() + Duration::from_millis(20);
    let place = gate.enter(&owner, soon()).await.unwrap();
    let (waits, refused) = tokio::join!(gate.enter(&owner, soon()), gate.enter(&owner, soon()));
    assert_eq!(waits.err().unwrap().code, Code::Overloaded);
    assert!(matches!(refused.err().unwrap().code, Code::QueueFull | Code::Overloaded));
    drop(place);
    assert!(gate.enter(&owner, soon()).await.is_ok());
    assert_eq!(gate.load(), Load::default());
}

#[tokio::test]
async fn who_queues_first_comes_first_and_gives_all_its_room_back() {
    let gate = admission(1, 1, 3);
    let owner: OwnerId = "a".parse().unwrap();
    let first = gate.queue(&owner, BYTES_PER_OWNER - 1).unwrap().come().await.unwrap();
    assert_eq!(gate.queue(&owner, 2).err().unwrap().code, Code::QueueFull, "what runs counts too");
    let (second, third) = (gate.queue(&owner, 1).unwrap(), gate.queue_again(&owner, 1));
    let (mut second, mut third) = (Box::pin(second.come()), Box::pin(third.come()));
    // Who is asked first is not who came first.
    assert!(futures_util::poll!(&mut third).is_pending() && futures_util::poll!(&mut second).is_pending());
    drop(first);
    assert!(futures_util::poll!(&mut third).is_pending());
    drop(second.await);
    drop(third.await);
    let waits = gate.queue(&owner, 5).unwrap();
    drop((gate.queue(&owner, 5).unwrap(), waits));
    assert!(gate.load() == Load::default() && gate.rooms.are_empty());
}

#[tokio::test]
async fn what_waits_on_its_own_stands_behind_no_long_line_of_another_owner() {
    let gate = admission(1, 1, 400);
    let (a, b): (OwnerId, OwnerId) = ("a".parse().unwrap(), "b".parse().unwrap());
    let running = gate.queue(&a, 1).unwrap().come().await.unwrap();
    let mut line: Vec<_> = (0..100).map(|_| gate.queue(&a, 1).unwrap()).collect();
    let other = gate.queue(&b, 1).unwrap();
    drop(running);
    // Its owner came later than the other one had its last place.
    drop(line.remove(0).come().await.unwrap());
    let other = other.come().await.unwrap();
    assert_eq!(gate.load(), Load { running: 1, queued: 99 });
    // What gives its place back waits again, and its request has its room all the time.
    let room = other.give_back().unwrap();
    assert_eq!(gate.load(), Load { running: 1, queued: 98 });
    let again = gate.requeue(&b, room);
    assert_eq!(gate.load(), Load { running: 1, queued: 99 });
    drop(line);
    drop(again.come().await.unwrap());
    assert!(gate.load() == Load::default() && gate.rooms.are_empty());
}

#[tokio::test]
async fn what_gave_its_place_back_counts_among_those_that_wait() {
    let gate = admission(1, 1, 1);
    let owner: OwnerId = "a".parse().unwrap();
    let mut rooms = Vec::new();
    for _ in 0..2 {
        rooms.push(gate.queue(&owner, 1).unwrap().come().await.unwrap().give_back().unwrap());
    }
    assert!(matches!(gate.queue(&owner, 1).err().unwrap().code, Code::QueueFull | Code::Overloaded));
    rooms.pop();
    drop(gate.queue(&owner, 1).unwrap());
    rooms.clear();
    assert!(gate.load() == Load::default() && gate.rooms.are_empty());
}

#[tokio::test]
async fn those_that_nobody_waits_for_have_half_of_the_line_and_who_may_begin_begins() {
    let gate = admission(2, 1, 4);
    let [a, b, c]: [OwnerId; 3] = ["a", "b", "c"].map(|name| name.parse().unwrap());
    let soon = || Instant::now() + Duration::from_secs(60);
    let first = gate.queue(&a, 1).unwrap().come().await.unwrap();
    // Who waits for an answer takes nothing of their half.
    let answers = [gate.line_up(&a, false).unwrap(), gate.line_up(&a, false).unwrap()];
    let line = [gate.queue(&a, 1).unwrap(), gate.queue(&a, 1).unwrap()];
    drop(answers);
    let refused = gate.queue(&a, 1).err().unwrap();
    assert!(refused.detail.contains("half of queue.host"), "{refused:?}");
    // One place is free, and the next owner may have it.
    let second = gate.queue(&b, 1).unwrap().come().await.unwrap();
    assert_eq!(gate.queue(&c, 1).err().unwrap().code, Code::Overloaded);
    let mut answer = Box::pin(gate.enter(&c, soon()));
    assert!(futures_util::poll!(&mut answer).is_pending(), "the other half is for these");
    drop((first, second));
    drop(answer.await.unwrap());
    drop(line);
    gate.queue(&a, 1).unwrap().come().await.unwrap();
    assert_eq!(gate.gate.lock().alone, 0);
}
