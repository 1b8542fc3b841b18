package app

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reprieve-dev/reprieve/internal/inventory"
)

// owners has the names of the objects that made pods. Its keys are the names of the pods in
// happenings.
type owners map[string]string

// ownersOf returns the owners of all pods in an inventory. For pods of a Deployment, the owner is
// the Deployment, not its ReplicaSet.
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

// mention is a unit in a list of an answer, with a remark.
type mention struct {
	// unit is the name of the unit. said is the remark, which follows the name in the line.
	unit, said string
}

// grouped merges the mentions of one owner's pods that have the same remark, as in "188 pods of
// deployment default/web". The merged mention takes the place of the first of them.
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

// few returns the mentions to show. Unless wide, it groups them and returns the first few. The
// second result counts the mentions that are left out.
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
