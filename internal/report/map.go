package report

// Map says which workload has which GPUs of which node, as it is and, where something is planned,
// as that would leave it.
type Map struct {
	// Resource is the one that is counted, and At the moment that the map is of, in milliseconds
	// since 1970.
	Resource string    `json:"resource"`
	At       int64     `json:"at"`
	Nodes    []MapNode `json:"nodes"`
	// Works are the workloads that pods are of, and those that are planned.
	Works []MapWork `json:"works"`
	// Plans say what was planned, in its order; empty where nothing was.
	Plans []MapPlan `json:"plans"`
}

// MapNode is a node that has the resource.
type MapNode struct {
	Name string `json:"name"`
	// Total is how much it has of the resource, and Closed is true where it takes no new pods.
	Total  int64    `json:"total"`
	Closed bool     `json:"closed,omitempty"`
	Pods   []MapPod `json:"pods"`
}

// Changes of a pod by what is planned.
const (
	// MapGoes: it is evicted for what is planned, or has been told to go.
	MapGoes = "goes"
	// MapComes: it is planned.
	MapComes = "comes"
)

// MapPod is a pod on a node.
type MapPod struct {
	Name string `json:"pod"`
	// Work is its workload among the works, and Amount how much it has of the resource.
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

// MapPlan is what would become of one workload that is planned.
type MapPlan struct {
	Name    string `json:"name"`
	Outcome string `json:"outcome"`
	// Placed of Pods would have a node, and Evicted would go for them.
	Pods    int    `json:"pods"`
	Placed  int    `json:"placed"`
	Evicted int    `json:"evicted"`
	Message string `json:"message"`
}
