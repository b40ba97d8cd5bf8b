try {
  const theme = localStorage.getItem("amp-lessons-theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {}
