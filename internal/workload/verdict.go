package workload

// Verdict is a result of a check for the users of a group: the reason and message of its
// PodGroupScheduled condition and of its Pods' events. The zero value means that there is nothing
// to report.
type Verdict struct {
	Reason  string
	Message string
}
