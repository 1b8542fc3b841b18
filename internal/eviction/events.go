package eviction

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/reprieve-dev/reprieve/api/v1alpha1"
	"github.com/reprieve-dev/reprieve/internal/core"
	"github.com/reprieve-dev/reprieve/internal/gang"
)

// preemptionEvents records events for the preemptor and for the victims.
type preemptionEvents struct {
	recorder events.EventRecorder
	// ofProfile returns the recorder for a profile. It is nil if all profiles use recorder.
	ofProfile func(profile string) events.EventRecorder
	// groups returns the API version of a PodGroup. It is nil if there is only one version.
	groups gang.Source
}

// by returns the events for a preemptor of the profile.
func (e *preemptionEvents) by(profile string) *preemptionEvents {
	if e.ofProfile == nil || profile == "" {
		return e
	}
	return &preemptionEvents{recorder: e.ofProfile(profile), groups: e.groups}
}

// longestNote is the maximum length of an event's note in the API, in bytes.
const longestNote = 1024

// noteOf shortens a text to the maximum length of a note.
func noteOf(text string) string {
	if len(text) <= longestNote {
		return text
	}
	return strings.ToValidUTF8(text[:longestNote-4], "") + " ..."
}

// podReference returns a reference to a pod for events.
func podReference(namespace, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid},
	}
}

// victimPod records an event on a pod that is evicted.
func (e *preemptionEvents) victimPod(namespace, name string, uid types.UID, by v1alpha1.DisruptionPreemptor, message string) {
	e.recorder.Eventf(podReference(namespace, name, uid), e.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// refused records an event on a member that stays because the API server refuses its deletion,
// while other members of its group were evicted.
func (e *preemptionEvents) refused(namespace, name string, uid types.UID, by v1alpha1.DisruptionPreemptor, err error) {
	e.recorder.Eventf(podReference(namespace, name, uid), e.reference(by), corev1.EventTypeWarning, "DeletionRefused", "Preempting",
		"%s", noteOf("it stays, though its PodGroup was to go as a whole: "+err.Error()))
}

// victimGroup records an event on a group that is evicted.
func (e *preemptionEvents) victimGroup(v *core.Victim, by v1alpha1.DisruptionPreemptor, message string) {
	e.recorder.Eventf(e.victim(v), e.reference(by), corev1.EventTypeNormal, "Preempted", "Preempting", "%s", message)
}

// success records an event on the preemptor that lists the victims. Kubernetes counts events that
// differ only in their text as one, and keeps the first text. So that different victims make
// separate events, the event also refers to the first victim.
func (e *preemptionEvents) success(d *core.Decision) {
	var related runtime.Object
	if len(d.Victims) > 0 {
		related = e.victim(&d.Victims[0])
	}
	e.recorder.Eventf(e.reference(preemptorOf(d)), related, corev1.EventTypeNormal, "Preempting", "Preempting",
		"%s", noteOf(d.Taking()))
}

// failure records the error in an event on the preemptor. The action of the event is the reason of
// the API error. So different errors make separate events.
func (e *preemptionEvents) failure(d *core.Decision, err error) {
	action := string(apierrors.ReasonForError(err))
	if action == "" {
		action = "Preempting"
	}
	e.recorder.Eventf(e.reference(preemptorOf(d)), nil, corev1.EventTypeWarning, "PreemptionFailed", action,
		"%s", noteOf("room could not be made: "+err.Error()))
}

// victim returns a reference to a victim, for events.
func (e *preemptionEvents) victim(v *core.Victim) runtime.Object {
	kind := v1alpha1.PreemptorPod
	if v.Group {
		kind = v1alpha1.PreemptorPodGroup
	}
	name := v.Name
	if tree, ok := gang.CompositeOf(types.NamespacedName{Namespace: v.Namespace, Name: name}); ok {
		kind, name = v1alpha1.PreemptorComposite, tree.Name
	}
	return e.reference(v1alpha1.DisruptionPreemptor{Kind: kind, Namespace: v.Namespace, Name: name, UID: types.UID(v.UID)})
}

// reference returns a reference to an object, for events.
func (e *preemptionEvents) reference(p v1alpha1.DisruptionPreemptor) runtime.Object {
	object := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
	if p.Kind == v1alpha1.PreemptorComposite {
		return &v1alpha1.CompositePodGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "CompositePodGroup"},
			ObjectMeta: object,
		}
	}
	if p.Kind == v1alpha1.PreemptorPodGroup {
		version := v1alpha1.SchemeGroupVersion.String()
		if e.groups != nil {
			g, ok := e.groups.Group(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
			if ok && g.UID == p.UID && g.APIVersion != "" {
				version = g.APIVersion
			}
		}
		return &v1alpha1.PodGroup{
			TypeMeta:   metav1.TypeMeta{APIVersion: version, Kind: "PodGroup"},
			ObjectMeta: object,
		}
	}
	return podReference(p.Namespace, p.Name, p.UID)
}
