package core

import "fmt"

// reportedLosses returns the losses for the report of a Decision, without steps and without the
// cost for each pod. The report contains them even if the search does not compare lost work,
// because users ask for the cost of a preemption.
func (sr *search) reportedLosses() *losses {
	return newLosses(sr.whole.s, sr.p.Now, reportSettingsOf(sr.whole.s, sr.p))
}

// beside returns the work that a gang loses if the given units are evicted, without the work of
// these units.
func (l *losses) beside(uid string, victims []int32) int64 {
	total := l.gang(uid)
	for _, u := range victims {
		if unit := &l.s.Units[u]; unit.PodGroup == uid && !unit.Group {
			total -= l.of(u)
		}
	}
	return max(total, 0)
}

// DeviceHours converts lost work in milli-device-seconds to device-hours.
func DeviceHours(lost int64) float64 { return float64(lost) / MilliDevices / 3600 }

// hoursPhrase returns the device-hours of lost work for a message. lost is the real loss in
// milli-device-seconds, as [Decision.LostWork] has it. It is never [Score.LostWork], because that
// counts whole steps and a cost for each pod.
func hoursPhrase(lost int64) string {
	hours := DeviceHours(lost)
	if hours < 0.1 {
		return "less than 0.1 device-hours"
	}
	return fmt.Sprintf("%.1f device-hours", hours)
}
