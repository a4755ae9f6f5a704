//! Many threads of a process share one connection through one dispatcher (Flock's way; ORCA item 12).
//!
//! Why: rings have one producer each. Instead of a lock or atomics on the connection, each thread has a small pair of its own to
//! the dispatcher, which merges their requests into the connection and routes the replies back by tag.
//!
//! Shape:
//! ```text
//! thread 0 ◀─pair─▶ ┐
//! thread 1 ◀─pair─▶ ├ dispatcher ◀─pair─▶ connection's server
//! thread 2 ◀─pair─▶ ┘
//! ```
//! Bounds: a thread has at most its own pair's entries in flight, the connection at most its own. What the connection has no
//! credit for stays in the threads' rings, and a thread whose ring is full is told so.
//!
//! Fairness: round robin, a few requests per thread and turn, starting one thread further each turn.
//!
//! Errors: when the connection's server is gone, [`Dispatcher::is_abandoned`] says so; dropping the dispatcher lets every
//! thread see its own pair abandoned.

use crate::pair::{Client, Server, Tag, pair};
use crate::tags::TagMap;

/// Requests taken from one thread before the next has its turn.
const QUOTA: usize = 8;

/// Merges the requests of many threads into one connection.
pub struct Dispatcher<Req: Send, Rep: Send> {
    connection: Client<Req, Rep>,
    members: Vec<Server<Req, Rep>>,
    /// Who asked: the thread, and its own tag.
    routes: TagMap<(usize, Tag)>,
    first: usize,
}

/// Splits `connection` among `members` threads with `entries` requests in flight each (a power of two): the dispatcher, and a
/// client for each thread, used like any other.
pub fn share<Req: Send, Rep: Send>(
    connection: Client<Req, Rep>,
    members: usize,
    entries: u32,
) -> (Dispatcher<Req, Rep>, Vec<Client<Req, Rep>>) {
    let (clients, members) = (0..members).map(|_| pair(entries)).unzip();
    let routes = TagMap::new(connection.entries());
    (Dispatcher { connection, members, routes, first: 0 }, clients)
}

impl<Req: Send, Rep: Send> Dispatcher<Req, Rep> {
    /// One turn: replies out, requests in. Returns how many messages moved; 0 means that there was nothing to do.
    pub fn turn(&mut self) -> usize {
        self.route_replies() + self.merge_requests()
    }

    fn route_replies(&mut self) -> usize {
        let (routes, members) = (&mut self.routes, &mut self.members);
        let moved = self.connection.drain(usize::MAX, |tag, reply| {
            // A reply nobody asked for can come only from a peer that lies; nobody gets it.
            if let Some((member, its_tag)) = routes.remove(tag) {
                members[member].reply(its_tag, reply);
            }
        });
        if moved > 0 {
            members.iter_mut().for_each(Server::flush);
        }
        moved
    }

    fn merge_requests(&mut self) -> usize {
        let (connection, routes) = (&mut self.connection, &mut self.routes);
        let n = self.members.len();
        let mut moved = 0;
        for member in (0..n).map(|i| (self.first + i) % n) {
            let quota = QUOTA.min(connection.free() as usize);
            moved += self.members[member].drain(quota, |its_tag, request| {
                let tag = connection.try_send(request).expect("the quota is within the credits");
                routes.insert(tag, (member, its_tag));
            });
        }
        self.first = if n == 0 { 0 } else { (self.first + 1) % n };
        connection.flush();
        moved
    }

    /// True when the connection's server is gone.
    pub fn is_abandoned(&self) -> bool {
        self.connection.is_abandoned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Full;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn every_thread_gets_its_own_replies() {
        const MEMBERS: usize = 3;
        let steps: u64 = if cfg!(miri) { 40 } else { 5_000 };
        let (client, mut server) = pair::<(usize, u64), (usize, u64)>(8);
        let (mut dispatcher, clients) = share(client, MEMBERS, 4);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut waiting = Vec::new();
                while !stop.load(Ordering::Acquire) {
                    server.drain(8, |tag, request| waiting.push((tag, request)));
                    // Answered youngest first: out of order.
                    while let Some((tag, (who, n))) = waiting.pop() {
                        server.reply(tag, (who, n * 2));
                    }
                    server.flush();
                    if dispatcher.turn() == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let players: Vec<_> = clients
                .into_iter()
                .enumerate()
                .map(|(who, mut client)| {
                    scope.spawn(move || {
                        let (mut sent, mut seen) = (0, std::collections::HashMap::new());
                        let mut sum = 0;
                        while sent < steps || !seen.is_empty() {
                            if sent < steps {
                                match client.try_send((who, sent)) {
                                    Ok(tag) => {
                                        assert!(seen.insert(tag, sent).is_none());
                                        sent += 1;
                                        client.flush();
                                    }
                                    Err(Full(_)) => assert_eq!(client.in_flight(), 4),
                                }
                            }
                            while let Some((tag, (whose, twice))) = client.poll() {
                                assert_eq!((whose, Some(twice)), (who, seen.remove(&tag).map(|n| n * 2)));
                                sum += twice;
                            }
                            std::thread::yield_now();
                        }
                        assert_eq!(sum, steps * (steps - 1));
                    })
                })
                .collect();
            for player in players {
                player.join().expect("no panic");
            }
            stop.store(true, Ordering::Release);
        });
    }

    #[test]
    fn a_full_connection_leaves_requests_where_they_are() {
        let (client, mut server) = pair::<u32, u32>(2);
        let (mut dispatcher, mut clients) = share(client, 2, 4);
        for client in &mut clients {
            for n in 0..4 {
                client.try_send(n).expect("a credit");
            }
            assert_eq!(client.try_send(9), Err(Full(9)));
        }
        assert_eq!(dispatcher.turn(), 2);
        assert_eq!(dispatcher.turn(), 0);
        let mut seen = 0;
        while seen < 8 {
            server.answer(8, |_, n| n);
            dispatcher.turn();
            seen += clients.iter_mut().map(|c| c.drain(9, |_, _| ())).sum::<usize>();
        }
        drop(server);
        assert!(dispatcher.is_abandoned());
        drop(dispatcher);
        assert!(clients.iter().all(Client::is_abandoned));
    }
}
