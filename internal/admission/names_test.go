package admission

import (
	"time"

	"github.com/reprieve-dev/reprieve/internal/workload"
)

func podNamed(name string) workload.Key {
	return workload.Key{Namespace: "ns", Name: name, UID: "uid-" + name}
}

func gangNamed(name string) workload.Key {
	return workload.Key{Gang: true, Namespace: "ns", Name: name}
}

func at(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
