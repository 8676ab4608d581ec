//! Limits in force, watched over: counted, swept, and compared with what the kernel runs.

use super::limiter::Limiter;
use super::reload::read_to_end;
use super::stop::{Stop, Wish};
use super::{Error, Request, unwritten};
use crate::bpf::Place;
use crate::config::{Action, Per};
use crate::hold;
use crate::net::kernel::Kernel;
use crate::net::{LinkEvent, LinkWatch};
use crate::report::CountersReport;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// How often idle keys are swept out.
const SWEEP: Duration = Duration::from_secs(10);
/// How long traffic must have flowed before "limit not reached" is said.
const NOT_REACHED: Duration = Duration::from_secs(60);
/// Bytes that must have come before one source can be said to send almost all of them.
const MANY_BYTES: u64 = 1_000_000;

impl Limiter {
    /// Counts, follows the interface, and makes sure that the limit is still in force.
    pub(super) async fn watch_over<W: LinkWatch>(
        &mut self,
        net: &Kernel,
        request: &Request,
        watch: &mut W,
        stop: &mut Stop,
    ) -> Result<(), Error> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        second.tick().await;
        let mut before = self.counters(net).await?;
        let mut counted_at = self.elapsed_ns();
        let mut swept = Instant::now();
        let mut not_reached = Some(());
        let mut behind_nat = Some(());
        let mut in_front = None;
        let mut odd_readings = 0;
        let mut reading = None;
        let mut again = false;
        loop {
            tokio::select! {
                wish = stop.asked() => match wish {
                    Wish::Stop => return Ok(()),
                    // One that is being read may be older than the wish.
                    Wish::Reload if reading.is_some() => again = true,
                    Wish::Reload => reading = request.file.as_deref().map(|file| self.read_again(file)),
                },
                read = read_to_end(&mut reading) => {
                    self.reload(net, request, read).await?;
                    if std::mem::take(&mut again) {
                        reading = request.file.as_deref().map(|file| self.read_again(file));
                    }
                },
                event = watch.next() => match event? {
                    LinkEvent::Removed => return Err(Error::InterfaceGone(self.link.name.clone())),
                    LinkEvent::Changed(link) => self.follow(net, request, link).await?,
                },
                _ = second.tick() => {
                    // While interfaces come and go, the kernel can leave one out of a listing: a
                    // difference counts when it is seen twice in a row.
                    let enforced = self.still_enforced(net).await;
                    let read = match self.counters(net).await {
                        Ok(counters) => enforced.map(|other| (other, counters)),
                        Err(error) => enforced.and(Err(error)),
                    };
                    let (other, counters) = match read {
                        Ok(read) => read,
                        Err(error @ Error::InterfaceGone(_)) => return Err(error),
                        Err(error) if odd_readings > 0 => return Err(error),
                        Err(_) => {
                            odd_readings += 1;
                            continue;
                        }
                    };
                    odd_readings = 0;
                    self.settle(net).await?;
                    self.follow_cgroups()?;
                    if swept.elapsed() >= SWEEP {
                        self.program.sweep()?;
                        swept = Instant::now();
                    }
                    let now = self.elapsed_ns();
                    request.output.counters(&counters, &before, now - counted_at)
                        .map_err(unwritten)?;
                    if self.started.elapsed() >= NOT_REACHED && not_reached.take().is_some()
                        && counters.limit_not_reached()
                    {
                        let rate = counters.offered_rate(now);
                        request.output.notice(&format!("limit not reached: {rate} offered"));
                    }
                    if behind_nat.is_some() && let Some(text) = self.behind_nat(&counters) {
                        behind_nat = None;
                        request.output.notice(&text);
                    }
                    if let Some(id) = other && in_front.replace(id) != Some(id) {
                        let text = format!(
                            "program {id} (bpftool prog show id {id}) now stands in front of leaky's on \
                             {}: what it does not hand on is NOT limited; start leaky again to be first",
                            self.link.name
                        );
                        request.output.notice(&text);
                    }
                    (before, counted_at) = (counters, now);
                }
            }
        }
    }

    /// Looks whether hold and program are still there. Returns the id of a program that stands in
    /// front of leaky's, if one does.
    async fn still_enforced(&mut self, net: &Kernel) -> Result<Option<u32>, Error> {
        match self.installed.verify(net).await {
            Err(hold::Error::Net(error)) if error.is_interface_gone() => {
                return Err(Error::InterfaceGone(self.link.name.clone()));
            }
            other => other?,
        }
        let place = match &self.clsact {
            None => self.program.place_in_tcx(&self.link)?,
            Some(clsact) if clsact.has_filter(net, self.link.index).await? => None,
            Some(_) => Some(Place::Nowhere),
        };
        match place {
            None | Some(Place::First) => Ok(None),
            Some(Place::Behind(other)) => Ok(Some(other)),
            Some(Place::Nowhere) => Err(Error::Detached(self.link.name.clone())),
        }
    }

    /// Clients that share one address share one bucket: says so where one source address sends nearly all
    /// bytes of a class that has a bucket for each source (case L69). Whoever sends 95 % has a lead of at
    /// least nine tenths, and a lead of nine tenths takes at least nine tenths of the bytes.
    fn behind_nat(&self, counters: &CountersReport) -> Option<String> {
        self.compiled.classes.iter().find_map(|class| {
            let per_source = matches!(class.per, Per::Source { .. });
            let counted = counters.main_source_lead(&class.name)?;
            (per_source
                && class.clients == 0
                && class.action != Action::Pass
                && counted.offered_bytes >= MANY_BYTES
                && counted.lead_bytes >= counted.offered_bytes / 10 * 9)
                .then(|| {
                    format!(
                        "one source address sends more than 90 % of class {} on {}: if clients are \
                         behind NAT, they share its bucket; limit the interface on their side, or use \
                         per = \"mark\" with marks that are set before the translation",
                        class.name, self.link.name
                    )
                })
        })
    }
}
