//! Why clients of a bucket wait, in words for the person who can change it.

use super::BucketStatus;

impl BucketStatus {
    /// What clients wait for; nothing, if none does.
    pub fn why_clients_wait(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.waiting == 0 {
            return reasons;
        }
        if let Some(down) = self.down_seconds {
            reasons.push(format!("the database has accepted no connection for {down:.1} s"));
        }
        if self.waiting_for_place > 0 {
            reasons.push(format!("{} for a place: {}", self.waiting_for_place, self.why_for_place()));
        }
        if self.waiting_for_connection > 0 {
            reasons.push(format!("{} for a connection: {}", self.waiting_for_connection, self.why_for_connection()));
        }
        reasons
    }

    fn why_for_place(&self) -> String {
        let places = (f64::from(self.share) * self.dispatch_limit).floor().max(1.0);
        if f64::from(self.in_use + self.waiting_for_connection) >= places {
            let of_limit = if self.dispatch_limit < 1.0 {
                format!("{} of max_connections = {}", self.dispatch_limit, self.share)
            } else {
                format!("max_connections = {}", self.share)
            };
            return format!("all {places} are taken ({of_limit})");
        }
        match self.tenant_max_connections {
            Some(most) => format!("their tenants use all they may (tenants.max_connections = {most})"),
            None => "they are about to get one".to_owned(),
        }
    }

    fn why_for_connection(&self) -> String {
        let parts = [
            (self.opening, "being opened"),
            (self.resetting, "being reset"),
            (self.closing, "not let go of by the server yet"),
        ];
        let busy: Vec<_> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if busy.is_empty() {
            let rate = self.connects_per_second;
            return format!("none may be opened at this moment (rate.per_second = {rate}, or a pause after a failure)");
        }
        busy.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::bucket;
    use super::*;

    #[test]
    fn nobody_waits_without_a_reason() {
        let idle = bucket();
        assert_eq!(idle.why_clients_wait(), [""; 0]);
        let full = BucketStatus { in_use: 20, waiting: 3, waiting_for_place: 3, ..bucket() };
        assert_eq!(full.why_clients_wait(), ["3 for a place: all 20 are taken (max_connections = 20)"]);
        let capped = BucketStatus { dispatch_limit: 0.8, in_use: 16, waiting: 1, waiting_for_place: 1, ..bucket() };
        assert_eq!(capped.why_clients_wait(), ["1 for a place: all 16 are taken (0.8 of max_connections = 20)"]);
        let tenants =
            BucketStatus { tenant_max_connections: Some(2), in_use: 2, waiting: 1, waiting_for_place: 1, ..bucket() };
        assert_eq!(
            tenants.why_clients_wait(),
            ["1 for a place: their tenants use all they may (tenants.max_connections = 2)"]
        );
    }

    #[test]
    fn those_whose_turn_it_is_learn_what_the_connections_are_busy_with() {
        let waits = BucketStatus { waiting: 4, waiting_for_connection: 4, ..bucket() };
        let opening = BucketStatus { opening: 3, closing: 1, ..waits };
        assert_eq!(
            opening.why_clients_wait(),
            ["4 for a connection: 3 being opened, 1 not let go of by the server yet"]
        );
        let down = BucketStatus { opening: 0, closing: 0, down_seconds: Some(2.0), ..opening };
        assert_eq!(
            down.why_clients_wait(),
            [
                "the database has accepted no connection for 2.0 s",
                "4 for a connection: none may be opened at this moment (rate.per_second = 100, or a pause after a failure)"
            ]
        );
    }
}
