//! Which documents of an order get numbers, once it is known which of them are on record already. The
//! same for every store.

use std::collections::HashMap;

use super::{Assigned, NewDocument};
use crate::{Delivery, DeliveryId};

/// A document that was on record before, found by its request key or its reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDocument {
    /// The delivery.
    pub delivery: DeliveryId,
    /// Its ID.
    pub id: String,
    /// Whether what is delivered is the same. The store compares, so that nobody has to read it.
    pub is_same: bool,
}

/// What was on record before, by the place of a document among all of an order, from 0. A request key, of
/// any type, comes before a reference, of the order's type.
pub type KnownDocuments = HashMap<usize, KnownDocument>;

/// What becomes of an order.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The documents that get numbers, in order.
    pub new: Vec<&'a NewDocument>,
    /// What becomes of each document of each request.
    fates: Vec<Vec<Fate>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    /// It gets a number, or is the same as another one of the order that gets it.
    New(usize),
    Repeats(usize),
    Known(DeliveryId, String),
    Conflict(String),
    Refused,
    NoRoom,
}

/// The same reference or key within one order, where the other document has no ID yet.
const IN_THIS_ORDER: &str = "another document of the same call";

impl<'a> Plan<'a> {
    /// Goes through the requests in order. `room` is how many numbers there are.
    pub fn new(requests: &'a [Vec<NewDocument>], known: &KnownDocuments, room: usize) -> Self {
        let mut plan = Self { new: Vec::new(), fates: Vec::with_capacity(requests.len()) };
        let (mut seen, mut place) = (Seen::default(), 0);
        for request in requests {
            let before = plan.new.len();
            let places = place..;
            place += request.len();
            let documents = places.zip(request);
            let fate = |(place, document)| plan.fate(document, known.get(&place), &mut seen);
            let mut fates: Vec<Fate> = documents.map(fate).collect();
            let conflict = fates.iter().any(|fate| matches!(fate, Fate::Conflict(_)));
            let too_many = plan.new.len() > room;
            if conflict || too_many {
                // All of a request, or nothing.
                plan.new.truncate(before);
                seen.forget(request, before);
                for fate in &mut fates {
                    match fate {
                        Fate::Conflict(_) => {}
                        _ if conflict => *fate = Fate::Refused,
                        _ => *fate = Fate::NoRoom,
                    }
                }
            }
            plan.fates.push(fates);
        }
        plan
    }

    fn fate(
        &mut self,
        document: &'a NewDocument,
        known: Option<&KnownDocument>,
        seen: &mut Seen<'a>,
    ) -> Fate {
        if let Some(found) = known {
            return if found.is_same {
                Fate::Known(found.delivery, found.id.clone())
            } else {
                Fate::Conflict(found.id.clone())
            };
        }
        let key = document.request_key.as_deref();
        let reference = document.reference.as_deref();
        let earlier = key.and_then(|key| seen.by_request_key.get(key)).copied();
        let earlier = earlier.or_else(|| seen.by_reference.get(reference?).copied());
        if let Some(earlier) = earlier {
            return if self.new[earlier].payload == document.payload {
                Fate::Repeats(earlier)
            } else {
                Fate::Conflict(IN_THIS_ORDER.to_owned())
            };
        }
        let place = self.new.len();
        self.new.push(document);
        seen.by_request_key.extend(key.map(|key| (key, place)));
        seen.by_reference.extend(reference.map(|reference| (reference, place)));
        Fate::New(place)
    }

    /// What to answer, once every new document is on record.
    pub fn outcome(self, deliveries: Vec<Delivery>) -> Vec<Vec<Assigned>> {
        let ids: Vec<(DeliveryId, String)> =
            deliveries.iter().map(|delivery| (delivery.id, delivery.content.key.clone())).collect();
        let mut deliveries: Vec<Option<Delivery>> = deliveries.into_iter().map(Some).collect();
        let mut assigned = |fate| match fate {
            Fate::New(place) => match deliveries[place].take() {
                Some(delivery) => Assigned::New(delivery),
                None => known(&ids[place]),
            },
            Fate::Repeats(place) => known(&ids[place]),
            Fate::Known(delivery, id) => Assigned::Known { delivery, id },
            Fate::Conflict(id) => Assigned::Conflict { id },
            Fate::Refused => Assigned::Refused,
            Fate::NoRoom => Assigned::NoRoom,
        };
        self.fates.into_iter().map(|fates| fates.into_iter().map(&mut assigned).collect()).collect()
    }
}

fn known((delivery, id): &(DeliveryId, String)) -> Assigned {
    Assigned::Known { delivery: *delivery, id: id.clone() }
}

/// Places of what an order has brought so far.
#[derive(Debug, Default)]
struct Seen<'a> {
    by_reference: HashMap<&'a str, usize>,
    by_request_key: HashMap<&'a str, usize>,
}

impl Seen<'_> {
    /// Forgets what a request has brought to places from here on.
    fn forget(&mut self, request: &[NewDocument], from: usize) {
        let remove = |places: &mut HashMap<&str, usize>, key: Option<&str>| {
            if key.and_then(|key| places.get(key)).is_some_and(|place| *place >= from) {
                places.remove(key.unwrap_or_default());
            }
        };
        for document in request {
            remove(&mut self.by_reference, document.reference.as_deref());
            remove(&mut self.by_request_key, document.request_key.as_deref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(payload: &str, reference: Option<&str>) -> NewDocument {
        NewDocument {
            payload: payload.to_owned(),
            reference: reference.map(ToOwned::to_owned),
            request_key: None,
            key_id: 0,
        }
    }

    fn fates(requests: &[Vec<NewDocument>], known: &KnownDocuments, room: usize) -> String {
        let plan = Plan::new(requests, known, room);
        let show = |fate: &Fate| match fate {
            Fate::New(place) => format!("{place}"),
            Fate::Repeats(place) => format!("={place}"),
            Fate::Known(..) => "k".to_owned(),
            Fate::Conflict(_) => "c".to_owned(),
            Fate::Refused => "r".to_owned(),
            Fate::NoRoom => "-".to_owned(),
        };
        let requests: Vec<String> =
            plan.fates.iter().map(|fates| fates.iter().map(show).collect()).collect();
        requests.join(" ")
    }

    #[test]
    fn what_is_on_record_gets_no_number() {
        let known =
            |is_same| KnownDocument { delivery: DeliveryId(1), id: "A-1".to_owned(), is_same };
        let known = KnownDocuments::from([(0, known(true)), (2, known(false)), (3, known(true))]);
        let requests = [
            vec![document("1", Some("a"))],
            vec![document("1", None), document("2", Some("a"))],
            vec![document("1", Some("a"))],
            vec![document("1", None)],
        ];
        assert_eq!(fates(&requests, &known, 9), "k rc k 0");
    }

    #[test]
    fn documents_that_come_twice_in_one_order_are_one() {
        let requests = [
            vec![document("1", Some("a")), document("1", Some("a"))],
            vec![document("1", Some("a"))],
            vec![document("2", Some("a"))],
        ];
        assert_eq!(fates(&requests, &KnownDocuments::default(), 9), "0=0 =0 c");
    }

    #[test]
    fn a_request_is_taken_whole_or_not_at_all() {
        let requests = [
            vec![document("1", Some("a")), document("2", Some("a")), document("3", None)],
            // The one before left nothing behind.
            vec![document("2", Some("a"))],
            vec![document("4", None), document("5", None)],
            vec![document("6", None)],
        ];
        assert_eq!(fates(&requests, &KnownDocuments::default(), 2), "rcr 0 -- 1");
    }
}
