package report

// Map shows the GPUs of each node and the pods that use them. If there is a plan, the map also
// shows the changes that the plan would make.
type Map struct {
	// Resource is the name of the resource on the map. At is the time of the map, in milliseconds
	// since 1970.
	Resource string    `json:"resource"`
	At       int64     `json:"at"`
	Nodes    []MapNode `json:"nodes"`
	// Works are the workloads that have pods on the map, and the planned workloads.
	Works []MapWork `json:"works"`
	// Plans has the outcome for each planned workload, in the order of the plan. It is empty
	// without a plan.
	Plans []MapPlan `json:"plans"`
}

// MapNode is a node on the map. It has some of the map's resource.
type MapNode struct {
	Name string `json:"name"`
	// Total is the node's amount of the resource. Closed is true if the node is cordoned and
	// accepts no new pods.
	Total  int64    `json:"total"`
	Closed bool     `json:"closed,omitempty"`
	Pods   []MapPod `json:"pods"`
}

// These are the changes of a pod on the map.
const (
	// MapGoes means that the plan evicts the pod, or that the pod already terminates.
	MapGoes = "goes"
	// MapComes means that the plan places the pod.
	MapComes = "comes"
)

// MapPod is a pod on a node.
type MapPod struct {
	Name string `json:"pod"`
	// Work is the index of the pod's workload in Works. Amount is the pod's request of the
	// resource.
	Work   int    `json:"work"`
	Amount int64  `json:"amount"`
	Change string `json:"change,omitempty"`
}

// MapWork is a workload on the map.
type MapWork struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Group     bool   `json:"group,omitempty"`
	Priority  *int32 `json:"priority"`
	Queue     string `json:"queue,omitempty"`
}

// MapPlan is the outcome for one planned workload.
type MapPlan struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	// Pods is the number of the workload's pods, and Placed is the number of them that get a node.
	// Evicted is the number of pods that would be evicted for the workload.
	Pods    int    `json:"pods"`
	Placed  int    `json:"placed"`
	Evicted int    `json:"evicted"`
	Message string `json:"message"`
}
