// Package changes delays the handling of PodGroups that change very often. It decides about each
// change when to handle it, and knows neither PodGroups nor their members.
package changes
