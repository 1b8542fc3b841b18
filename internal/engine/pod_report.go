package engine

import "github.com/reprieve-dev/reprieve/internal/workload"

// podReport is the report on a single pod that may not use its queue.
type podReport struct {
	// key names the pod.
	key workload.Key
	// verdict is the reason why the pod may not use its queue; zero if the pod may use the queue.
	// told is the verdict that was reported last.
	verdict, told workload.Verdict
}

// isDue reports whether the present verdict has not been reported yet.
func (r *podReport) isDue() bool { return r.verdict != r.told }

// PodReport is a message about a single pod: it may not use its queue, or may use the queue again.
type PodReport struct {
	// Key names the pod.
	Key workload.Key
	// Verdict is the reason why the pod may not use its queue. It is zero if the pod may use the
	// queue again.
	Verdict workload.Verdict
	// Again is true if the last report about the pod had the same reason.
	Again bool
}

// Blocked records why a single pod may not use its queue. key names the pod.
func (ps *Pods) Blocked(uid UID, key workload.Key, v workload.Verdict) {
	ps.change(uid, func(p *pod) { p.report.key, p.report.verdict = key, v })
}

// Unblocked records that a single pod may use its queue.
func (ps *Pods) Unblocked(uid UID) {
	ps.changeKnown(uid, func(p *pod) {
		if p.report.verdict = (workload.Verdict{}); !p.report.isDue() {
			p.report = podReport{}
		}
	})
}

// Reports returns at most the given number of reports that are due, and marks them as reported.
func (ps *Pods) Reports(most int) []PodReport {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []PodReport
	for uid := range ps.unreported {
		if len(out) == most {
			break
		}
		p := ps.records[uid]
		r := &p.report
		out = append(out, PodReport{Key: r.key, Verdict: r.verdict, Again: r.told.Reason == r.verdict.Reason})
		if r.told = r.verdict; r.told == (workload.Verdict{}) {
			p.report = podReport{}
		}
		ps.index(uid, p)
		if p.isEmpty() {
			delete(ps.records, uid)
		}
	}
	return out
}
