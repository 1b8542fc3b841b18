package throughput

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/component-base/metrics/legacyregistry"
)

// apiCalls has the number of responses of the API server in this process. The key has the verb, the
// resource and the status code.
type apiCalls map[string]float64

func countCalls() (apiCalls, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, fmt.Errorf("count API calls: %w", err)
	}
	calls := make(apiCalls)
	for _, family := range families {
		if family.GetName() != "apiserver_request_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := make(map[string]string)
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			resource := labels["resource"]
			if sub := labels["subresource"]; sub != "" {
				resource += "/" + sub
			}
			calls[fmt.Sprintf("%s %s %s", labels["verb"], resource, labels["code"])] += metric.GetCounter().GetValue()
		}
	}
	return calls, nil
}

// writeSince writes the number of calls since an earlier count to a file, the most frequent calls
// first.
func (calls apiCalls) writeSince(before apiCalls, file string) error {
	since := make(apiCalls)
	for call, n := range calls {
		if n > before[call] {
			since[call] = n - before[call]
		}
	}
	var out bytes.Buffer
	for _, call := range slices.SortedFunc(maps.Keys(since), func(a, b string) int {
		return cmp.Or(cmp.Compare(since[b], since[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(&out, "%8.0f %s\n", since[call], call)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
