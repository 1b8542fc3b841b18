package workload

// Verdict is the result of a check, as users see it. It holds the reason and message of the group's
// PodGroupScheduled condition and of events of its Pods. The zero value means that there is nothing
// to report.
type Verdict struct {
	Reason  string
	Message string
}
