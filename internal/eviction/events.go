package eviction

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// teller tells both sides of a preemption, by events.
type teller struct {
	recorder events.EventRecorder
	// of is the recorder of a profile; nil where recorder is everybody's.
	of func(profile string) events.EventRecorder
	// groups know which API a PodGroup is of; nil where there is only one.
	groups gang.Source
}

// as is a teller who speaks for the profile that the preemptor belongs to.
func (t *teller) as(profile string) *teller {
	if t.of == nil || profile == "" {
		return t
	}
	return &teller{recorder: t.of(profile), groups: t.groups}
}

// longestNote is what the API takes as an event's note.
const longestNote = 1024

// noteOf is a text, cut down to what the API takes.
func noteOf(text string) string {
	if len(text) <= longestNote {
		return text
	}
	return strings.ToValidUTF8(text[:longestNote-4], "") + " ..."
}

// victimPod tells a pod that it goes.
func (t *teller) victimPod(namespace, name string, uid types.UID, by v1alpha1.DisruptionPreemptor, message string) {
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
	}
	t.recorder.Eventf(pod, t.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// victimGroup tells a group that it goes.
func (t *teller) victimGroup(v *core.Victim, by v1alpha1.DisruptionPreemptor, message string) {
	group := t.reference(v1alpha1.DisruptionPreemptor{
		Kind: v1alpha1.PreemptorPodGroup, Namespace: v.Namespace, Name: v.Name, UID: types.UID(v.UID),
	})
	t.recorder.Eventf(group, t.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// preemptor tells a preemptor whom it took.
func (t *teller) preemptor(d *core.Decision) {
	names := make([]string, len(d.Victims))
	for i := range d.Victims {
		names[i] = d.Victims[i].Namespace + "/" + d.Victims[i].Name
	}
	t.recorder.Eventf(t.reference(preemptorOf(d)), nil, corev1.EventTypeNormal, "Preempting", "Preempting",
		"%s", noteOf(fmt.Sprintf("%s: %v", d.Message, sortedNames(names))))
}

// failure tells a preemptor what went wrong.
func (t *teller) failure(d *core.Decision, err error) {
	t.recorder.Eventf(t.reference(preemptorOf(d)), nil, corev1.EventTypeWarning, "PreemptionFailed", "Preempting",
		"%s", noteOf("room could not be made: "+err.Error()))
}

// reference refers to an object in events.
func (t *teller) reference(p v1alpha1.DisruptionPreemptor) runtime.Object {
	object := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	if p.Kind == v1alpha1.PreemptorPodGroup {
		version := v1alpha1.SchemeGroupVersion.String()
		if t.groups != nil {
			g, ok := t.groups.Group(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			if ok && g.UID == p.UID && g.APIVersion != "" {
				version = g.APIVersion
			}
		}
		return &v1alpha1.PodGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "PodGroup"},
			ObjectMeta: object,
		}
	}
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: object}
}
