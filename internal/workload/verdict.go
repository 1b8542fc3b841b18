package workload

// Verdict is the result of a check that users of a group see: the reason and message of its
// PodGroupScheduled condition and of its Pods' events. The zero value means that there is nothing
// to report.
type Verdict struct {
	Reason  string
	Message string
}
