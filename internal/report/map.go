package report

// Map shows the GPUs of each node with the workloads that have them, and the changes that a plan
// would make.
type Map struct {
	// Resource is the counted resource. At is the moment of the map, in milliseconds since 1970.
	Resource string    `json:"resource"`
	At       int64     `json:"at"`
	Nodes    []MapNode `json:"nodes"`
	// Works are the workloads of the pods on the map, and the planned workloads.
	Works []MapWork `json:"works"`
	// Plans are the planned workloads with their outcomes, in the order of the plan; empty without
	// a plan.
	Plans []MapPlan `json:"plans"`
}

// MapNode is a node that has the resource.
type MapNode struct {
	Name string `json:"name"`
	// Total is the node's amount of the resource. Closed is true if the node accepts no new pods.
	Total  int64    `json:"total"`
	Closed bool     `json:"closed,omitempty"`
	Pods   []MapPod `json:"pods"`
}

// Changes of a pod on the map.
const (
	// MapGoes marks a pod that the plan evicts, or that already terminates.
	MapGoes = "goes"
	// MapComes marks a pod that the plan places.
	MapComes = "comes"
)

// MapPod is a pod on a node.
type MapPod struct {
	Name string `json:"pod"`
	// Work is the index of the pod's workload in Works. Amount is the pod's amount of the resource.
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

// MapPlan is the outcome of planning one workload.
type MapPlan struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	// Pods counts the workload's pods, Placed the pods with a node, and Evicted the pods that would
	// be evicted for them.
	Pods    int    `json:"pods"`
	Placed  int    `json:"placed"`
	Evicted int    `json:"evicted"`
	Message string `json:"message"`
}
