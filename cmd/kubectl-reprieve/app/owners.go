package app

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// owners maps the name of a pod to the name of the object that created the pod. Both names have the
// format of happening.Victim.
type owners map[string]string

// ownersOf returns the owners of all pods in an inventory. The owner of a Deployment's pod is the
// Deployment, not the ReplicaSet.
func ownersOf(objects *inventory.Inventory) (owners, error) {
	pods, err := inventory.Decode[*corev1.Pod](objects, inventory.Pods)
	if err != nil {
		return nil, err
	}
	out := make(owners)
	for _, pod := range pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		if owner == nil {
			continue
		}
		kind, name := strings.ToLower(owner.Kind), owner.Name
		if hash := pod.Labels["pod-template-hash"]; kind == "replicaset" && hash != "" && strings.HasSuffix(name, "-"+hash) {
			kind, name = "deployment", strings.TrimSuffix(name, "-"+hash)
		}
		out[unitName(pod.Namespace, pod.Name, false)] = kind + " " + pod.Namespace + "/" + name
	}
	return out, nil
}

// mention is an entry in a list of units: the name of a unit, and a remark about the unit.
type mention struct {
	// unit is the name of the unit. said is the remark that the line prints after the name.
	unit, said string
}

// grouped merges mentions of pods if the pods have the same owner and the same remark. The merged
// name is like "188 pods of deployment default/web". It takes the place of the first merged
// mention.
func (o owners) grouped(all []mention) []mention {
	type same struct{ owner, said string }
	count, at := make(map[same]int), make(map[same]int)
	var out []mention
	for _, m := range all {
		key := same{o[m.unit], m.said}
		if key.owner == "" {
			out = append(out, m)
			continue
		}
		count[key]++
		if count[key] == 1 {
			at[key] = len(out)
			out = append(out, m)
			continue
		}
		out[at[key]].unit = fmt.Sprintf("%d pods of %s", count[key], key.owner)
	}
	return out
}

// few returns the mentions to print, and the number of mentions that it leaves out. If wide is
// true, it returns all mentions. Otherwise it merges mentions and returns the first fewShown.
func (o owners) few(all []mention, wide bool) ([]mention, int) {
	if wide {
		return all, 0
	}
	lines := o.grouped(all)
	if len(lines) <= fewShown {
		return lines, 0
	}
	return lines[:fewShown], len(lines) - fewShown
}
