package playground

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ParseNodeResources parses a comma-separated list such as "cpu=64,memory=512Gi,nvidia.com/gpu=8".
// An empty string is an empty list. An error names the invalid item.
func ParseNodeResources(s string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	if strings.TrimSpace(s) == "" {
		return list, nil
	}
	for _, item := range strings.Split(s, ",") {
		item = strings.TrimSpace(item)
		name, quantity, err := parseNodeResource(item)
		if err != nil {
			return nil, fmt.Errorf("bad node resource %q: %w", item, err)
		}
		if _, ok := list[name]; ok {
			return nil, fmt.Errorf("bad node resource %q: %s is given twice", item, name)
		}
		list[name] = quantity
	}
	return list, nil
}

func parseNodeResource(item string) (corev1.ResourceName, resource.Quantity, error) {
	key, value, ok := strings.Cut(item, "=")
	if !ok {
		return "", resource.Quantity{}, fmt.Errorf("want NAME=QUANTITY")
	}
	name := corev1.ResourceName(strings.TrimSpace(key))
	if err := checkResourceName(name); err != nil {
		return "", resource.Quantity{}, err
	}
	quantity, err := resource.ParseQuantity(strings.TrimSpace(value))
	if err != nil {
		return "", resource.Quantity{}, fmt.Errorf("%q is not a quantity", value)
	}
	if quantity.Sign() < 0 {
		return "", resource.Quantity{}, fmt.Errorf("the quantity is negative")
	}
	if _, whole := quantity.AsInt64(); !whole && name != corev1.ResourceCPU {
		return "", resource.Quantity{}, fmt.Errorf("the quantity must be a whole number")
	}
	return name, quantity, nil
}

// checkResourceName returns an error if a node's capacity cannot have a resource with the name. A
// resource that is not part of Kubernetes needs a domain, because the API server requires a domain
// in pods.
func checkResourceName(name corev1.ResourceName) error {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage:
		return nil
	}
	if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		return nil
	}
	if problems := validation.IsQualifiedName(string(name)); len(problems) > 0 {
		return fmt.Errorf("%q is not a resource name", name)
	}
	if !strings.Contains(string(name), "/") {
		return fmt.Errorf("%q is not a resource name: extended resources have a domain, such as nvidia.com/gpu", name)
	}
	return nil
}
